package release_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

func withdraw(c *registrytest.Client, id, version string) apptest.Response {
	return c.Post(registrytest.VersionPath(id, version)+"/withdraw", object{"reason": "It leaks."})
}

func restore(c *registrytest.Client, id, version string) apptest.Response {
	return c.Post(registrytest.VersionPath(id, version)+"/restore", object{})
}

// TestWithdrawTheOnlyVersion leaves the entry without a current version until there is
// another one.
func TestWithdrawTheOnlyVersion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, eve := w.Org("acme", access.Team), w.Org("other", access.Team)
		archive := registrytest.Skill(t, "A.")
		id := ada.Made("pdf", "1", archive, object{"visibility": "public"})
		ada.Install(id, object{"device_id": "a"})
		wantCurrent := func(want any) {
			t.Helper()
			got := ada.Get(registrytest.Path + "?name=pdf").Want(http.StatusOK).List("entries")
			if len(got) != 1 {
				t.Fatalf("entries %v", got)
			}
			current, _ := got[0]["current_version"].(object)
			if (current == nil) != (want == nil) || current != nil && current["version"] != want {
				t.Errorf("current_version %v, want %v", got[0]["current_version"], want)
			}
		}
		if got := withdraw(ada, id, "1").Want(http.StatusOK).Object()["version"].(object); got["state"] != "withdrawn" ||
			got["is_current"] != false || got["withdrawn_reason"] != "It leaks." {
			t.Errorf("version %v", got)
		}
		wantCurrent(nil)
		if got := ada.Flags(id); got != " 1" {
			t.Errorf("versions%s, want 1 without a current one", got)
		}
		for _, path := range []string{"/public", "/public?organisation=acme&name=pdf"} {
			if got := eve.Get(registrytest.Path + path).Want(http.StatusOK).List("entries"); len(got) > 0 {
				t.Errorf("%s lists %v", path, got)
			}
		}
		eve.Get(registrytest.EntryPath(id)).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		w.Anonymous().Get("/o/acme/pdf/.well-known/agent-skills/index.json").Want(http.StatusNotFound)
		// Who has it installed is not told of an update, and keeps the record.
		for _, c := range []*registrytest.Client{ada, eve} {
			if got := c.Sync(registrytest.Item(id, registrytest.Sum(archive))); len(got) > 0 {
				t.Errorf("sync answers %v", got)
			}
		}
		installed := ada.Get(registrytest.Path + "/installed").Want(http.StatusOK).List("installations")
		if len(installed) != 1 || installed[0]["version"] != "1" || installed[0]["latest_version"] != "" {
			t.Errorf("installed %v", installed)
		}
		ada.Get(registrytest.EntryPath(id) + "/rollback").Want(http.StatusOK)
		ada.Post(registrytest.EntryPath(id)+"/rollback", nil).Want(http.StatusConflict)
		ada.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": "1"}).Want(http.StatusConflict)
		ada.Post(registrytest.EntryPath(id)+"/rollback/undo", object{}).Want(http.StatusConflict)

		restore(ada, id, "1").Want(http.StatusOK)
		wantCurrent("1")
		eve.Get(registrytest.EntryPath(id)).Want(http.StatusOK)
		withdraw(ada, id, "1").Want(http.StatusOK)
		ada.Pushed(id, "2", registrytest.Skill(t, "Two."))
		wantCurrent("2")
		restore(ada, id, "1").Want(http.StatusOK)
		wantCurrent("2") // a version that is restored replaces none

		// One that was rolled back can be named, although no version is current.
		ada.Post(registrytest.EntryPath(id)+"/rollback", object{"reason": "bad"}).Want(http.StatusOK)
		withdraw(ada, id, "1").Want(http.StatusOK)
		wantCurrent(nil)
		ada.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": "2"}).Want(http.StatusOK)
		wantCurrent("2")
		if findings, err := w.Registry.Check(t.Context(), db); err != nil || len(findings) == 0 {
			t.Errorf("findings %v, %v", findings, err)
		}
	})
}

// TestWithdrawnContent: nobody gets a withdrawn version but its own organisation, which asks
// for it.
func TestWithdrawnContent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, eve := w.Org("acme", access.Team), w.Org("other", access.Team)
		one := registrytest.Skill(t, "One.")
		id := ada.Made("pdf", "1", one, object{"visibility": "public"})
		ada.Pushed(id, "2", registrytest.Skill(t, "Two."))
		signed := func(c *registrytest.Client) string {
			ada.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": "1"}).Want(http.StatusOK)
			url := apptest.Text(c.Sync(registrytest.Item(id, "none"))[0], "download_url")
			ada.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": "2"}).Want(http.StatusOK)
			w.Anonymous().Get(url).Want(http.StatusOK)
			return url
		}
		links := []string{signed(ada), signed(eve)}
		withdraw(ada, id, "1").Want(http.StatusOK)
		version := registrytest.VersionPath(id, "1")
		paths := []string{version + "/download", version + "/files/SKILL.md", version + "/diff", registrytest.VersionPath(id, "2") + "/diff?from=1"}
		wantGone := func(a apptest.Response) {
			t.Helper()
			got, _ := a.Want(http.StatusGone).Object()["error"].(object)
			if got["code"] != "withdrawn" || got["message"] != "Version 1 of pdf was withdrawn: It leaks." {
				t.Errorf("%s: %v", a.What, got)
			}
		}
		there := w.Replica()
		for _, at := range []*registrytest.World{w, there} {
			for _, path := range paths {
				and := "?"
				if path == paths[3] {
					and = "&"
				}
				wantGone(ada.At(at).Get(path))
				wantGone(eve.At(at).Get(path))
				wantGone(eve.At(at).Get(path + and + "withdrawn=true"))
				ada.At(at).Get(path + and + "withdrawn=true").Want(http.StatusOK)
			}
		}
		for _, link := range links {
			wantGone(w.Anonymous().Get(link))
		}
		for _, v := range eve.Versions(id) {
			if v["version"] == "1" && v["withdrawn_reason"] != "It leaks." || v["version"] == "2" && v["withdrawn_reason"] != nil {
				t.Errorf("version %v has the reason %v", v["version"], v["withdrawn_reason"])
			}
		}
		restore(ada, id, "1").Want(http.StatusOK)
		for _, path := range append(paths, links...) {
			eve.Get(path).Want(http.StatusOK)
		}

		// The object of a version that was rolled forward is that of an earlier one.
		forward := ada.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": "1", "roll_forward": true})
		if forward.Status == http.StatusOK {
			withdraw(ada, id, "1").Want(http.StatusOK)
			w.Anonymous().Get(links[1]).Want(http.StatusOK)
		}
	})
}

// TestSetVisibility is for admins and owners who may push.
func TestSetVisibility(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, eve := w.Org("acme", access.Team), w.Org("other", access.Team)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "A."), object{"visibility": "public"})
		path := registrytest.EntryPath(id)
		member, viewer := w.Member(ada.Org, access.Member), w.Member(ada.Org, access.Viewer)
		patch := func(c *registrytest.Client, visibility string) apptest.Response {
			return c.Do(http.MethodPatch, path, object{"visibility": visibility})
		}
		patch(viewer, "org").Want(http.StatusForbidden)
		patch(member, "org").WantErrorWith(http.StatusForbidden, "admin, or ownership")
		patch(eve, "org").WantErrorWith(http.StatusNotFound, "Registry entry not found")
		patch(ada, "secret").Want(http.StatusBadRequest)
		ada.Do(http.MethodPatch, path, object{}).Want(http.StatusBadRequest)
		w.Anonymous().Do(http.MethodPatch, path, object{"visibility": "org"}).Want(http.StatusUnauthorized)
		eve.Get(path).Want(http.StatusOK)

		w.Owns = func(_ context.Context, c access.Caller, of string) (bool, error) {
			return of == id && c.UserID == member.User.ID, nil
		}
		link := apptest.Text(eve.Sync(registrytest.Item(id, "none"))[0], "download_url")
		own := apptest.Text(ada.Sync(registrytest.Item(id, "none"))[0], "download_url")
		if got := patch(member, "org").Want(http.StatusOK).Object()["entry"].(object); got["visibility"] != "org" || got["id"] != id {
			t.Errorf("entry %v", got)
		}
		patch(member, "org").Want(http.StatusOK) // a second time changes nothing
		eve.Get(path).Want(http.StatusNotFound)
		w.Anonymous().Get(link).Want(http.StatusNotFound)
		w.Anonymous().Get(own).Want(http.StatusOK)
		w.Anonymous().Get("/pdf/.well-known/agent-skills/index.json").Want(http.StatusNotFound)
		if n := w.Count(`audit_entries WHERE action = 'registry.entry.visibility'`); n != 1 {
			t.Errorf("%d audit entries, want 1", n)
		}

		patch(ada, "unlisted").Want(http.StatusOK)
		eve.Get(path).Want(http.StatusOK)
		w.Anonymous().Get("/pdf/.well-known/agent-skills/index.json").Want(http.StatusNotFound)
		patch(ada, "public").Want(http.StatusOK)
		w.Anonymous().Get("/pdf/.well-known/agent-skills/index.json").Want(http.StatusOK)
		// Its name at the host's address stays reserved while it is hidden.
		patch(ada, "org").Want(http.StatusOK)
		eve.Made("pdf", "1", registrytest.Skill(t, "Mine."), object{"visibility": "public"})
		w.Anonymous().Get("/pdf/.well-known/agent-skills/index.json").Want(http.StatusNotFound)
	})
}
