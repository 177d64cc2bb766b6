package installations_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

type object = apptest.Object

func TestInstall(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 2)
		v := ada.Versions(id)
		answer := ada.Post(registrytest.EntryPath(id)+"/install", nil).Want(http.StatusOK).Object()
		apptest.WantKeys(t, answer, "installation")
		first := answer["installation"].(object)
		firstID := apptest.Text(first, "id")
		registrytest.DropVarying(t, first, []string{"id"}, []string{"installed_at", "last_seen_at"})
		want := object{
			"entry_id": id, "version": "2", "content_hash": v["2"]["content_hash"], "install_path": nil, "device_id": nil, "sync_status": "up_to_date",
			"client": "go-http-client",
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
			{"edited", object{"content_hash": registrytest.Sum([]byte("edited"))}, nil, "modified", 1},
			{"nothing yet", object{"content_hash": "none"}, nil, "unknown", 1},
			{"device", object{"device_id": "laptop"}, "2", "up_to_date", 2},
			{"path", object{"install_path": "~/.claude/skills/pdf"}, "2", "up_to_date", 3},
			{"device and path", object{"device_id": "laptop", "install_path": "~/.claude/skills/pdf"}, "2", "up_to_date", 4},
			{"the same once more", object{"device_id": "laptop", "install_path": "~/.claude/skills/pdf"}, "2", "up_to_date", 4},
		} {
			got := ada.Install(id, c.body)
			if got["version"] != c.version || got["sync_status"] != c.status {
				t.Errorf("%s: version %v is %v, want %v and %v", c.name, got["version"], got["sync_status"], c.version, c.status)
			}
			if n := ada.Installs(id); n != c.count {
				t.Errorf("%s: %d installations, want %d", c.name, n, c.count)
			}
		}
		if again := ada.Install(id, nil); apptest.Text(again, "id") != firstID {
			t.Error("the same installation has another id")
		}
		for field, limit := range map[string]int{"install_path": 1024, "device_id": 1024, "content_hash": 64} {
			ada.Post(registrytest.EntryPath(id)+"/install", object{field: strings.Repeat("x", limit+1)}).WantIssueWith(field, "at most")
			ada.Post(registrytest.EntryPath(id)+"/install", object{field: 1}).WantIssueWith(field, field)
		}
		ada.Post(registrytest.EntryPath(uuid.NewString())+"/install", nil).
			WantErrorWith(http.StatusNotFound, "Registry entry not found")
	})
}

func TestInstallations(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Team)
		bob := w.Member(ada.Org, access.Member)
		eve := w.Org("other", access.Team)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "1."), object{"visibility": "public"})
		path := registrytest.EntryPath(id) + "/installations"
		if got := ada.Get(path).Want(http.StatusOK).List("installations"); len(got) != 0 {
			t.Errorf("installations %v, want none", got)
		}
		ada.Install(id, object{"device_id": "a"})
		ada.Pushed(id, "2", registrytest.Skill(t, "2."))
		bob.Install(id, nil)
		eve.Install(id, nil)
		if n := ada.Installs(id); n != 3 {
			t.Errorf("%d installations, want all three", n)
		}

		answer := bob.Get(path).Want(http.StatusOK)
		apptest.WantKeys(t, answer.Object(), "installations")
		var got []object
		for _, i := range answer.List("installations") {
			apptest.WantKeys(t, i, "user", "id", "entry_id", "version", "content_hash", "install_path", "device_id", "client",
				"sync_status", "installed_at", "last_seen_at")
			got = append(got, object{
				"user": i["user"], "version": i["version"], "device_id": i["device_id"], "sync_status": i["sync_status"],
			})
		}
		person := func(c *registrytest.Client) object {
			return object{"id": c.User.ID, "name": c.User.Name, "email": c.User.Email}
		}
		want := []object{
			{"user": person(ada), "version": "1", "device_id": "a", "sync_status": "behind"},
			{"user": person(bob), "version": "2", "device_id": nil, "sync_status": "up_to_date"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("installations (-want +got):\n%s", diff)
		}
		others := eve.Get(path).Want(http.StatusOK).List("installations")
		if len(others) != 1 || apptest.Text(others[0], "user", "id") != eve.User.ID {
			t.Errorf("the other organisation sees %v, want its own", others)
		}
		ada.Get(registrytest.EntryPath(uuid.NewString())+"/installations").
			WantErrorWith(http.StatusNotFound, "Registry entry not found")
	})
}

func TestInstalled(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		bob := w.Member(ada.Org, access.Member)
		path := registrytest.Path + "/installed"
		if got := ada.Get(path).Want(http.StatusOK).List("installations"); len(got) != 0 {
			t.Errorf("installed %v, want nothing", got)
		}
		pdf, docx := ada.EntryOf("pdf", 2), ada.EntryOf("docx", 1)
		ada.Install(pdf, object{"device_id": "a"})
		bob.Install(docx, nil)
		ada.Post(registrytest.EntryPath(pdf)+"/rollback", nil).Want(http.StatusOK)

		list := ada.Get(path).Want(http.StatusOK).List("installations")
		if len(list) != 1 {
			t.Fatalf("installed %v, want one", list)
		}
		apptest.WantKeys(t, list[0], "id", "entry_id", "version", "content_hash", "install_path", "device_id", "client", "sync_status",
			"installed_at", "last_seen_at", "name", "latest_version")
		if i := list[0]; apptest.Text(i, "name") != "pdf" || apptest.Text(i, "version") != "2" ||
			apptest.Text(i, "latest_version") != "1" || apptest.Text(i, "sync_status") != "behind" {
			t.Errorf("installed %v", i)
		}
		ada.Do(http.MethodDelete, registrytest.EntryPath(docx), nil).Want(http.StatusNoContent)
		if got := bob.Get(path).List("installations"); len(got) != 0 {
			t.Errorf("installed %v after the entry was deleted", got)
		}
	})
}

// TestInstallationsOfOneUser has a client that never reports the same device twice.
func TestInstallationsOfOneUser(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "1."))
		ada.Install(id, object{"device_id": "oldest"})
		w.Exec(`UPDATE registry_installations SET last_seen_at = 0`)
		w.Exec(`INSERT INTO registry_installations (id, entry_id, org_id, user_id, device_id, install_path, content_hash, installed_at, last_seen_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
			SELECT 'i' || i, $1, $2, $3, 'd' || i, '', '', 0, i FROM n`, id, ada.Org.ID, ada.User.ID)
		ada.Install(id, object{"device_id": "newest"})
		if n := ada.Installs(id); n != 1_000 {
			t.Errorf("%d installations, want 1,000", n)
		}
		if w.Count(`registry_installations WHERE device_id = 'oldest'`) != 0 ||
			w.Count(`registry_installations WHERE device_id = 'newest'`) != 1 {
			t.Error("another one is gone than the oldest")
		}
		if n := w.Count(`installation_changes WHERE device_hash <> ''`); n != 1 {
			t.Errorf("the history of %d devices is kept, want that of the newest", n)
		}
	})
}

func TestInstallAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 1)
		var installs []func() apptest.Response
		for i := range 24 {
			body := object{"device_id": fmt.Sprint(i % 6)}
			installs = append(installs, func() apptest.Response { return ada.Post(registrytest.EntryPath(id)+"/install", body) })
		}
		for _, a := range registrytest.Together(installs...) {
			a.Want(http.StatusOK)
		}
		if n := ada.Installs(id); n != 6 {
			t.Errorf("%d installations, want 6", n)
		}
	})
}
