package repohost_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
)

func TestSettings(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme", access.Pro)
		if got := c.Get(base + "/settings").Want(http.StatusOK).Object(); !cmp.Equal(got, object{"write_back_mode": "off"}) {
			t.Errorf("default: got %v", got)
		}
		for _, mode := range []string{"checks_and_prs", "checks", "off"} {
			got := c.Post(base+"/settings", object{"write_back_mode": mode}).Want(http.StatusOK).Object()
			if got["write_back_mode"] != mode {
				t.Errorf("got %v, want %s", got, mode)
			}
			if got := c.Get(base + "/settings").Object(); got["write_back_mode"] != mode {
				t.Errorf("got %v, want %s", got, mode)
			}
		}
		for _, body := range []object{{"write_back_mode": "all"}, {}} {
			c.Post(base+"/settings", body).WantIssueWith("write_back_mode", "")
		}
	})
}

func TestInstallations(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c, other := w.org("acme", access.Pro), w.org("other", access.Pro)
		for _, account := range []string{"acme", "renamed"} {
			if err := claims.Allow(t.Context(), db, c.Org.ID, account, false); err != nil {
				t.Fatal(err)
			}
		}
		body := object{"installation_id": 815, "account_login": "acme", "account_type": "Organization"}
		got := c.Post(base+"/installations", body).Want(http.StatusCreated).Object()
		want := object{
			"id": got["id"], "installation_id": 815.0, "account_login": "acme", "account_type": "Organization", "suspended": false,
			"created_at": got["created_at"], "updated_at": got["updated_at"],
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("installation (- want, + got):\n%s", diff)
		}
		body["account_type"], body["suspended"], body["account_login"] = "User", true, "renamed"
		again := c.Post(base+"/installations", body).Want(http.StatusCreated).Object()
		if again["id"] != got["id"] || again["suspended"] != true || again["account_type"] != "User" ||
			again["account_login"] != "renamed" {
			t.Errorf("again: got %v", again)
		}
		if all := c.Get(base + "/installations").Want(http.StatusOK).List("installations"); len(all) != 1 || !cmp.Equal(all[0], again) {
			t.Errorf("got %v, want %v", all, again)
		}
		other.Post(base+"/installations", body).Want(http.StatusConflict)
		if all := other.Get(base + "/installations").List("installations"); len(all) != 0 {
			t.Errorf("another organisation sees %v", all)
		}
		for field, value := range map[string]any{
			"installation_id": "x", "account_login": strings.Repeat("a", 101), "account_type": "Robot", "suspended": "yes",
		} {
			bad := object{"installation_id": 1, "account_login": "acme", "account_type": "User"}
			bad[field] = value
			c.Post(base+"/installations", bad).WantIssueWith(field, "")
			delete(bad, field)
			if field != "suspended" {
				c.Post(base+"/installations", bad).WantIssueWith(field, "")
			}
		}
		c.Post(base+"/installations", bindBody(1, "../x")).WantIssueWith("account_login", "")
	})
}

func TestRepositories(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	c, other := w.org("acme", access.Pro), w.org("other", access.Pro)
	w.repos.Create("acme/deploy").Push("first", skillFiles("One."))
	w.repos.Create("acme/empty")
	w.repos.Create("other/hidden")
	other.bind(2, "acme")
	entry := other.entry("deploy", "1.0.0")
	other.connect(entry, "acme/deploy", object{"installation_id": 2})
	if got := other.Get(base + "/repos?installation_id=2").List("repos"); got[0]["connected_elsewhere"] != false {
		t.Errorf("one's own connection: got %v", got[0])
	}
	if err := claims.Allow(t.Context(), w.DB, c.Org.ID, "acme", true); err != nil { // the claim moves to c
		t.Fatal(err)
	}
	c.bind(1, "acme")
	repos := c.Get(base + "/repos?installation_id=1").Want(http.StatusOK).List("repos")
	if len(repos) != 2 {
		t.Fatalf("got %v, want two", repos)
	}
	want := object{
		"id": repos[0]["id"], "full_name": "acme/deploy", "owner": "acme", "name": "deploy", "visibility": "private", "default_branch": "main",
		"html_url": "", "pushed_at": repos[0]["pushed_at"], "connected_elsewhere": true,
	}
	if diff := cmp.Diff(want, repos[0]); diff != "" || repos[0]["pushed_at"] == nil {
		t.Errorf("repository (- want, + got):\n%s", diff)
	}
	if repos[1]["connected_elsewhere"] != false || repos[1]["pushed_at"] != nil {
		t.Errorf("got %v", repos[1])
	}
	other.Get(base + "/repos?installation_id=2").Want(http.StatusConflict)
	c.Get(base + "/repos?installation_id=2").Want(http.StatusConflict)
	c.Get(base + "/repos?installation_id=99").Want(http.StatusConflict)
	c.Get(base + "/repos").Want(http.StatusBadRequest)
	c.Get(base + "/repos?installation_id=x").Want(http.StatusBadRequest)
}

func TestConnections(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme", access.Pro)
		w.repos.Create("acme/deploy")
		c.bind(1, "acme")
		entry := c.entry("deploy", "1.0.0")
		body := object{"entry_id": entry, "installation_id": 1, "repo_full_name": "acme/deploy"}
		got := c.Post(base+"/connections", body).Want(http.StatusCreated).Object()
		want := object{
			"id": got["id"], "org_id": c.Org.ID, "entry_id": entry, "entry_name": "deploy", "installation_id": 1.0, "repo_owner": "acme",
			"repo_name": "deploy", "repo_full_name": "acme/deploy", "default_branch": "main", "skill_path": ".", "auto_publish": true,
			"write_back_enabled": false, "tag_pattern": "v*", "created_by": c.User.ID, "created_at": got["created_at"],
			"updated_at": got["updated_at"], "last_attempt": nil, "publish_unchanged": false, "open_issues": false,
			"pull_requests": "same_repository", "codeowners": false, "chosen_by": c.User.ID,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("connection (- want, + got):\n%s", diff)
		}
		if all := c.Get(base + "/connections").Want(http.StatusOK).List("connections"); len(all) != 1 || !cmp.Equal(all[0], got) {
			t.Errorf("got %v", all)
		}
		c.Post(base+"/connections", body).Want(http.StatusConflict)
		body["skill_path"] = "./"
		c.Post(base+"/connections", body).Want(http.StatusConflict)
		body["skill_path"] = "other"
		c.Post(base+"/connections", body).Want(http.StatusCreated)

		id, _ := got["id"].(string)
		change := object{
			"write_back_enabled": true, "default_branch": "release/1", "skill_path": "a/b", "auto_publish": false,
			"tag_pattern": "deploy-*",
		}
		patched := c.Do(http.MethodPatch, base+"/connections/"+id, change).Want(http.StatusOK).Object()
		for field, value := range change {
			if patched[field] != value {
				t.Errorf("patch: %s is %v, want %v", field, patched[field], value)
			}
		}
		again := c.Do(http.MethodPatch, base+"/connections/"+id, object{}).Want(http.StatusOK).Object()
		if again["tag_pattern"] != "deploy-*" {
			t.Errorf("an empty patch: got %v", again)
		}
		c.Do(http.MethodPatch, base+"/connections/"+id, object{"skill_path": "other"}).Want(http.StatusConflict)
		for field, value := range map[string]string{"skill_path": "../x", "tag_pattern": "[", "default_branch": "a b"} {
			c.Do(http.MethodPatch, base+"/connections/"+id, object{field: value}).WantIssueWith(field, "")
		}
		stranger := w.org("stranger", access.Pro)
		stranger.Do(http.MethodPatch, base+"/connections/"+id, object{}).Want(http.StatusNotFound)
		stranger.Post(base+"/connections/"+id+"/sync", nil).Want(http.StatusNotFound)
		stranger.Do(http.MethodDelete, base+"/connections/"+id, nil).Want(http.StatusNotFound)
		if all := stranger.Get(base + "/connections").List("connections"); len(all) != 0 {
			t.Errorf("a stranger sees %v", all)
		}
	})
}

func TestConnectRefused(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	c, other := w.org("acme", access.Pro), w.org("other", access.Pro)
	w.repos.Create("acme/deploy")
	w.repos.Create("other/secret")
	c.bind(1, "acme")
	other.bind(2, "other")
	entry, foreign := c.entry("deploy", "1.0.0"), other.entry("deploy", "1.0.0")
	connect := func(fields object) answer {
		body := object{"entry_id": entry, "installation_id": 1, "repo_full_name": "acme/deploy"}
		return c.Post(base+"/connections", apptest.With(body, fields))
	}
	for field, values := range map[string][]any{
		"repo_full_name": {"deploy", "a/b/c", "../deploy", "acme/..", "", "acme/de ploy"},
		"skill_path":     {"..", "a/../../b", "/etc", `a\b`, ".git"},
		"tag_pattern":    {"[", "{a", strings.Repeat("a", 201)},
		"default_branch": {"a..b", "-x", "refs/heads/main", "a\nb", "x.lock"},
		"auto_publish":   {"yes"},
	} {
		for _, value := range values {
			connect(object{field: value}).WantIssueWith(field, "")
		}
	}
	for _, field := range []string{"entry_id", "installation_id", "repo_full_name"} {
		body := object{"entry_id": entry, "installation_id": 1, "repo_full_name": "acme/deploy"}
		delete(body, field)
		c.Post(base+"/connections", body).WantIssueWith(field, "")
	}
	connect(object{"entry_id": store.NewID()}).Want(http.StatusNotFound)
	connect(object{"entry_id": foreign}).Want(http.StatusNotFound)
	connect(object{"repo_full_name": "acme/none"}).Want(http.StatusNotFound)
	connect(object{"repo_full_name": "other/secret"}).Want(http.StatusNotFound)
	connect(object{"installation_id": 99}).Want(http.StatusConflict)
	connect(object{"installation_id": 2, "repo_full_name": "other/secret"}).Want(http.StatusConflict)
	c.Post(base+"/installations", apptest.With(bindBody(1, "acme"), object{"suspended": true})).Want(http.StatusCreated)
	connect(nil).Want(http.StatusConflict)
	if all := c.Get(base + "/connections").List("connections"); len(all) != 0 {
		t.Errorf("got %v, want none", all)
	}
}

func TestWhoMay(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	free := w.org("free", access.Free)
	pro := w.org("pro", access.Pro)
	viewer := w.Member(pro.Org, access.Viewer)
	narrowed := w.Member(pro.Org, access.Member, access.Read, access.Write)
	nobody := w.Anonymous()
	for _, r := range [][2]string{
		{"GET", "/settings"},
		{"POST", "/settings"},
		{"GET", "/installations"},
		{"POST", "/installations"},
		{"GET", "/repos?installation_id=1"},
		{"GET", "/connections"},
		{"POST", "/connections"},
		{"PATCH", "/connections/x"},
		{"DELETE", "/connections/x"},
		{"POST", "/connections/x/sync"},
		{"GET", "/deliveries"},
		{"POST", "/deliveries/x/redeliver"},
	} {
		nobody.Do(r[0], base+r[1], nil).Want(http.StatusUnauthorized)
		free.Do(r[0], base+r[1], nil).WantErrorWith(http.StatusForbidden, "pro plan")
		for _, c := range []*apptest.Caller{viewer, narrowed} {
			c.Do(r[0], base+r[1], nil).WantErrorWith(http.StatusForbidden, "registry:push")
		}
	}
}

func TestFetch(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	c, other := w.org("acme", access.Pro), w.org("other", access.Pro)
	c.bind(1, "acme")
	sha := w.repos.Create("acme/deploy").Push("first", map[string]string{"skills/a/SKILL.md": hosttest.Skill("a", "x")})
	commit, pkg, err := w.service.Fetch(t.Context(), c.Org.ID, 1, "acme/deploy", "main", "skills/a")
	if err != nil || commit != sha || pkg.SkillPath != "SKILL.md" {
		t.Fatalf("got %s, %v", commit, err)
	}
	_ = pkg.Close()
	for name, f := range map[string]struct {
		org, repo, ref, path string
		want                 fault.Kind
	}{
		"another organisation": {other.Org.ID, "acme/deploy", "main", ".", fault.Conflict},
		"another owner":        {c.Org.ID, "other/deploy", "main", ".", fault.NotFound},
		"no such ref":          {c.Org.ID, "acme/deploy", "none", ".", fault.NotFound},
		"no such folder":       {c.Org.ID, "acme/deploy", "main", "none", fault.NotFound},
		"traversal":            {c.Org.ID, "acme/deploy", "main", "../x", fault.Malformed},
	} {
		if _, _, err := w.service.Fetch(t.Context(), f.org, 1, f.repo, f.ref, f.path); !fault.Is(err, f.want) {
			t.Errorf("%s: got %v, want kind %d", name, err, f.want)
		}
	}
}
