package registry_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// installs is the number of installations of an entry. Its installation_count
// must be the number of their users.
func (c *client) installs(id string) int {
	c.t.Helper()
	n, _ := c.get(entryPath(id)).want(http.StatusOK).object()["installation_count"].(float64)
	if users := c.w.count(`(SELECT DISTINCT user_id FROM registry_installations WHERE entry_id = $1) u`, id); users != int(n) {
		c.t.Errorf("installation_count %v, but %d users", n, users)
	}
	return c.w.count(`registry_installations WHERE entry_id = $1`, id)
}

// install records an installation.
func (c *client) install(id string, body any) object {
	c.t.Helper()
	return c.post(entryPath(id)+"/install", body).want(http.StatusOK).object()["installation"].(object)
}

func TestInstall(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme", access.Pro)
		id := ada.entryOf("pdf", 2)
		v := ada.versions(id)
		answer := ada.post(entryPath(id)+"/install", nil).want(http.StatusOK).object()
		wantKeys(t, answer, "installation")
		first := answer["installation"].(object)
		firstID := text(first, "id")
		take(t, first, []string{"id"}, []string{"installed_at", "last_seen_at"})
		want := object{
			"entry_id": id, "version": "2", "content_hash": v["2"]["content_hash"], "install_path": nil, "device_id": nil, "sync_status": "up_to_date",
		}
		if diff := cmp.Diff(want, first); diff != "" {
			t.Errorf("installation (-want +got):\n%s", diff)
		}
		for _, c := range []struct {
			name            string
			body            object
			version, status any
			count           int
		}{
			{"again", object{}, "2", "up_to_date", 1},
			{"older version", object{"content_hash": v["1"]["content_hash"]}, "1", "behind", 1},
			{"edited", object{"content_hash": sum([]byte("edited"))}, nil, "modified", 1},
			{"nothing yet", object{"content_hash": "none"}, nil, "unknown", 1},
			{"device", object{"device_id": "laptop"}, "2", "up_to_date", 2},
			{"path", object{"install_path": "~/.claude/skills/pdf"}, "2", "up_to_date", 3},
			{"device and path", object{"device_id": "laptop", "install_path": "~/.claude/skills/pdf"}, "2", "up_to_date", 4},
			{"the same once more", object{"device_id": "laptop", "install_path": "~/.claude/skills/pdf"}, "2", "up_to_date", 4},
		} {
			got := ada.install(id, c.body)
			if got["version"] != c.version || got["sync_status"] != c.status {
				t.Errorf("%s: version %v is %v, want %v and %v", c.name, got["version"], got["sync_status"], c.version, c.status)
			}
			if n := ada.installs(id); n != c.count {
				t.Errorf("%s: %d installations, want %d", c.name, n, c.count)
			}
		}
		if again := ada.install(id, nil); text(again, "id") != firstID {
			t.Error("the same installation has another id")
		}
		for field, limit := range map[string]int{"install_path": 1024, "device_id": 1024, "content_hash": 64} {
			ada.post(entryPath(id)+"/install", object{field: strings.Repeat("x", limit+1)}).wantInvalid(field, "at most")
			ada.post(entryPath(id)+"/install", object{field: 1}).wantInvalid(field, field)
		}
		ada.post(entryPath(uuid.NewString())+"/install", nil).wantError(http.StatusNotFound, "Registry entry not found")
	})
}

func TestInstallations(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Team)
		bob := w.member(ada.org, access.Member)
		eve := w.org("other", access.Team)
		id := ada.made("pdf", "1", skill(t, "1."), object{"visibility": "public"})
		path := entryPath(id) + "/installations"
		if got := ada.get(path).want(http.StatusOK).list("installations"); len(got) != 0 {
			t.Errorf("installations %v, want none", got)
		}
		ada.install(id, object{"device_id": "a"})
		ada.push(id, "2", skill(t, "2.")).want(http.StatusCreated)
		bob.install(id, nil)
		eve.install(id, nil)
		if n := ada.installs(id); n != 3 {
			t.Errorf("%d installations, want all three", n)
		}

		answer := bob.get(path).want(http.StatusOK)
		wantKeys(t, answer.object(), "installations")
		var got []object
		for _, i := range answer.list("installations") {
			wantKeys(t, i, "user", "id", "entry_id", "version", "content_hash", "install_path", "device_id", "sync_status", "installed_at", "last_seen_at")
			got = append(got, object{"user": i["user"], "version": i["version"], "device_id": i["device_id"], "sync_status": i["sync_status"]})
		}
		person := func(c *client) object {
			return object{"id": c.user.ID, "name": c.user.Name, "email": c.user.Email}
		}
		want := []object{
			{"user": person(ada), "version": "1", "device_id": "a", "sync_status": "behind"},
			{"user": person(bob), "version": "2", "device_id": nil, "sync_status": "up_to_date"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("installations (-want +got):\n%s", diff)
		}
		if others := eve.get(path).want(http.StatusOK).list("installations"); len(others) != 1 || text(others[0], "user", "id") != eve.user.ID {
			t.Errorf("the other organisation sees %v, want its own", others)
		}
		ada.get(entryPath(uuid.NewString())+"/installations").wantError(http.StatusNotFound, "Registry entry not found")
	})
}

func TestInstalled(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		bob := w.member(ada.org, access.Member)
		path := registryPath + "/installed"
		if got := ada.get(path).want(http.StatusOK).list("installations"); len(got) != 0 {
			t.Errorf("installed %v, want nothing", got)
		}
		pdf, docx := ada.entryOf("pdf", 2), ada.entryOf("docx", 1)
		ada.install(pdf, object{"device_id": "a"})
		bob.install(docx, nil)
		ada.post(entryPath(pdf)+"/rollback", nil).want(http.StatusOK)

		list := ada.get(path).want(http.StatusOK).list("installations")
		if len(list) != 1 {
			t.Fatalf("installed %v, want one", list)
		}
		wantKeys(t, list[0], "id", "entry_id", "version", "content_hash", "install_path", "device_id", "sync_status", "installed_at", "last_seen_at", "name", "latest_version")
		if i := list[0]; text(i, "name") != "pdf" || text(i, "version") != "2" || text(i, "latest_version") != "1" || text(i, "sync_status") != "behind" {
			t.Errorf("installed %v", i)
		}
		ada.do(http.MethodDelete, entryPath(docx), nil).want(http.StatusNoContent)
		if got := bob.get(path).list("installations"); len(got) != 0 {
			t.Errorf("installed %v after the entry was deleted", got)
		}
	})
}
