package web_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
)

// bind binds the account acme and connects a repository of it to an entry. It
// returns the path of the connection.
func (b *browser) bind(entry string) string {
	b.w.T.Helper()
	b.post("/repohost/installations", url.Values{"installation_id": {"7"}, "account_login": {"acme"}, "account_type": {"Organization"}}).wantLocation("/repohost")
	return b.connect(entry, "acme/deploy")
}

// connect connects a repository to an entry and returns the connection's path.
func (b *browser) connect(entry, repo string) string {
	b.w.T.Helper()
	b.post("/repohost/connections", url.Values{
		"installation_id": {"7"}, "entry_id": {entry}, "repo_full_name": {repo}, "default_branch": {"main"}, "skill_path": {"."},
		"tag_pattern": {"v*"}, "auto_publish": {"on"},
	}).wantLocation("/repohost")
	all := b.api.Get("/api/v1/repohost/connections").Want(http.StatusOK).List("connections")
	return "/repohost/connections/" + all[len(all)-1]["id"].(string)
}

func TestRepohost(t *testing.T) {
	t.Parallel()
	repos := hosttest.NewRepos(t)
	w := newWorld(t, "sqlite", "--repohost-url", repos.Dir)
	repos.Create("acme/deploy").Push("first", map[string]string{"SKILL.md": hosttest.Skill("deploy", "Ships.")})
	// It is pushed before it is connected: the hook would run this program.
	repos.Create("acme/broken").Push("first", map[string]string{"SKILL.md": "no frontmatter"})
	b := w.as(access.Owner)
	b.get("/repohost").want(http.StatusOK).
		wantText("No account connected yet", "whetstone repohost init-repo OWNER/NAME", "Connect an account first").
		wantForms("/repohost/installations", "/repohost/settings")
	entry := b.push("deploy", "0.1.0", map[string]string{"SKILL.md": skillText("deploy", "Ships", "x")})
	connection := b.bind(entry)
	page := b.get("/repohost").want(http.StatusOK).
		wantText("acme/deploy is connected to deploy.", "nothing yet", "No deliveries yet")
	page.wantForms("/repohost/installations", connection+"/sync", connection+"/delete", "/repohost/settings")

	b.post(connection+"/sync", nil).wantLocation("/repohost")
	b.get("/repohost").want(http.StatusOK).wantText("acme/deploy: published. Published version 0.0.0-repohost.", "sync of")
	other := b.connect(entry, "acme/broken")
	b.post(other+"/sync", nil).want(http.StatusConflict).wantText("acme/broken: failed. SKILL.md: No frontmatter block")
	b.get("/repohost").want(http.StatusOK).wantText("■ failed", "1 finding")
	b.post(other+"/delete", nil).wantLocation("/repohost")

	b.post(connection, url.Values{"write_back": {"on"}}).wantLocation("/repohost")
	changed := b.api.Get("/api/v1/repohost/connections").Want(http.StatusOK).List("connections")[0]
	if changed["auto_publish"] != false || changed["write_back_enabled"] != true {
		t.Errorf("the flags are %v and %v", changed["auto_publish"], changed["write_back_enabled"])
	}
	b.post("/repohost/settings", url.Values{"mode": {"checks"}}).wantLocation("/repohost")
	if got := b.api.Get("/api/v1/repohost/settings").Want(http.StatusOK).Object()["write_back_mode"]; got != "checks" {
		t.Errorf("the mode is %v", got)
	}
	b.post("/repohost/settings", url.Values{"mode": {"all"}}).want(http.StatusBadRequest)
	b.post(connection+"/delete", nil).wantLocation("/repohost")
	b.get("/repohost").want(http.StatusOK).wantText("No repository is connected")
	b.get("/registry/" + entry).want(http.StatusOK).wantText("0.0.0-repohost.")
}

// TestRepohostConnection chooses a repository, and changes what is published of
// it.
func TestRepohostConnection(t *testing.T) {
	t.Parallel()
	repos := hosttest.NewRepos(t)
	w := newWorld(t, "sqlite", "--repohost-url", repos.Dir)
	for _, name := range []string{"acme/deploy", "acme/other", "zeta/third"} {
		repos.Create(name).Push("first", map[string]string{"SKILL.md": hosttest.Skill("deploy", "Ships.")})
	}
	b := w.as(access.Owner)
	b.get("/repohost/connections/new").want(http.StatusOK).wantText("No account connected")
	connection := b.bind(b.push("deploy", "0.1.0", map[string]string{"SKILL.md": skillText("deploy", "Ships", "x")}))
	b.post("/repohost/installations", url.Values{"installation_id": {"8"}, "account_login": {"zeta"}, "account_type": {"User"}}).
		wantLocation("/repohost")
	page := b.get("/repohost/connections/new").want(http.StatusOK).wantText("acme/deploy", "acme/other", "Connect by name").
		wantNoText("zeta/third")
	checkPage(t, page)
	b.get("/repohost/connections/new?installation=8").want(http.StatusOK).wantText("zeta/third").wantNoText("acme/other")
	b.get("/repohost/connections/new?installation=9").want(http.StatusOK).wantText("Installation 9 is not bound", "Connect by name")
	form := b.get("/repohost/connections/new?installation=8&repo=zeta%2Fthird&branch=trunk").want(http.StatusOK)
	checkPage(t, form)
	for field, want := range map[string]string{"repo_full_name": "zeta/third", "default_branch": "trunk", "skill_path": "."} {
		if got := attr(form.all("input#" + field)[0], "value"); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}

	checkPage(t, b.get(connection).want(http.StatusOK).wantText("acme/deploy").wantForms(connection))
	b.post(connection, url.Values{"default_branch": {"release"}, "skill_path": {"skills/deploy"}, "tag_pattern": {"deploy-*"}}).
		wantLocation("/repohost")
	changed := b.api.Get("/api/v1/repohost/connections").Want(http.StatusOK).List("connections")[0]
	if changed["default_branch"] != "release" || changed["skill_path"] != "skills/deploy" ||
		changed["tag_pattern"] != "deploy-*" || changed["auto_publish"] != false {
		t.Errorf("the connection is %v", changed)
	}
	bad := b.post(connection, url.Values{"default_branch": {"a..b"}, "skill_path": {"../x"}}).want(http.StatusBadRequest)
	if got := attr(bad.all("input#skill_path")[0], "value"); got != "../x" || len(bad.all("p.field-problem")) != 2 {
		t.Errorf("the form comes back with %q and %d problems", got, len(bad.all("p.field-problem")))
	}
	b.get("/repohost/connections/none").want(http.StatusNotFound)
}

// TestConnectChosen connects repositories to entries that were chosen from the
// list, where nothing is chosen beforehand.
func TestConnectChosen(t *testing.T) {
	t.Parallel()
	repos := hosttest.NewRepos(t)
	w := newWorld(t, "sqlite", "--repohost-url", repos.Dir)
	repos.Create("acme/review").Push("first", map[string]string{"SKILL.md": hosttest.Skill("review", "Reads.")})
	repos.Create("acme/broken").Push("first", map[string]string{"SKILL.md": "no frontmatter"})
	repos.Create("acme/empty")
	b := w.as(access.Owner)
	entry := b.push("deploy", "0.1.0", map[string]string{"SKILL.md": skillText("deploy", "Ships", "x")})
	b.post("/repohost/installations", url.Values{"installation_id": {"7"}, "account_login": {"acme"}, "account_type": {"User"}}).
		wantLocation("/repohost")
	form := b.get("/repohost/connections/new?installation=7&repo=acme%2Freview").want(http.StatusOK).wantText("New entry from SKILL.md")
	if got := form.all("select#entry_id option[selected]"); len(got) != 0 {
		t.Errorf("%d entries are chosen beforehand", len(got))
	}
	connect := func(repo, entry string, more ...string) *page {
		form := url.Values{
			"installation_id": {"7"}, "entry_id": {entry}, "repo_full_name": {repo}, "default_branch": {"main"},
			"skill_path": {"."}, "tag_pattern": {"v*"},
		}
		for _, field := range more {
			form.Set(field, "on")
		}
		return b.post("/repohost/connections", form)
	}
	connect("acme/review", "").want(http.StatusBadRequest).wantText("Choose the entry")
	refused := connect("acme/review", entry).want(http.StatusConflict).wantText("would replace those of", "although the skill has another name")
	checkPage(t, refused)
	connect("acme/broken", "new").want(http.StatusConflict).wantText("No frontmatter block")
	connect("acme/empty", "new").want(http.StatusNotFound)
	connect("acme/review", entry, "confirm_name").wantLocation("/repohost")
	connect("acme/empty", entry).wantLocation("/repohost") // nothing to compare yet
	connect("acme/review", "new", "open_issues").wantLocation("/repohost")
	made := b.api.Get("/api/v1/registry?name=review").Want(http.StatusOK).List("entries")
	if len(made) != 1 {
		t.Fatalf("got the entries %v, want one named review", made)
	}
	connect("acme/review", "new").want(http.StatusConflict).wantText("An entry named review exists")
	all := b.api.Get("/api/v1/repohost/connections").Want(http.StatusOK).List("connections")
	if last := all[len(all)-1]; len(all) != 3 || last["entry_id"] != made[0]["id"] || last["open_issues"] != true {
		t.Errorf("got the connections %v", all)
	}
}

func TestRepohostForms(t *testing.T) {
	t.Parallel()
	repos := hosttest.NewRepos(t)
	w := newWorld(t, "sqlite", "--repohost-url", repos.Dir)
	repos.Create("acme/deploy").Push("first", map[string]string{"SKILL.md": hosttest.Skill("deploy", "Ships.")})
	b := w.as(access.Owner)
	entry := b.push("deploy", "0.1.0", map[string]string{"SKILL.md": skillText("deploy", "Ships", "x")})
	for _, form := range []url.Values{
		{"installation_id": {"0"}, "account_login": {"acme"}, "account_type": {"User"}},
		{"installation_id": {"1.5"}, "account_login": {"acme"}, "account_type": {"User"}},
		{"installation_id": {"7"}, "account_login": {""}, "account_type": {"User"}},
		{"installation_id": {"7"}, "account_login": {"acme"}, "account_type": {"Robot"}},
		{"installation_id": {"7"}, "account_login": {"../" + payload}, "account_type": {"User"}},
	} {
		page := b.post("/repohost/installations", form).want(http.StatusBadRequest).wantInert()
		if got := attr(page.all("input#account_login")[0], "value"); got != form.Get("account_login") {
			t.Errorf("the form comes back with %q", got)
		}
	}
	b.bind(entry)
	bad := url.Values{
		"installation_id": {"7"}, "entry_id": {entry}, "repo_full_name": {payload}, "default_branch": {"a..b"},
		"skill_path": {"../x"}, "tag_pattern": {"["},
	}
	page := b.post("/repohost/connections", bad).want(http.StatusBadRequest).wantInert()
	if got := len(page.all("p.field-problem")); got != 4 {
		t.Errorf("%d fields have a problem, want 4", got)
	}
	bad = url.Values{"installation_id": {"7"}, "entry_id": {entry}, "repo_full_name": {"acme/none"}, "default_branch": {"main"}, "skill_path": {"."}, "tag_pattern": {"v*"}}
	b.post("/repohost/connections", bad).want(http.StatusNotFound).wantText("There is a problem")
}

func TestRepohostDeliveries(t *testing.T) {
	t.Parallel()
	repos := hosttest.NewRepos(t)
	w := newWorld(t, "sqlite", "--repohost-url", repos.Dir, "--repohost-webhook-secret", "hook-secret")
	repos.Create("acme/deploy").Push("first", map[string]string{"SKILL.md": hosttest.Skill("deploy", "Ships.")})
	b := w.as(access.Owner)
	b.bind(b.push("deploy", "0.1.0", map[string]string{"SKILL.md": skillText("deploy", "Ships", "x")}))
	body := `{"ref":"refs/heads/main","repository":{"full_name":"acme/deploy"},"installation":{"id":7}}`
	b.deliver("hook-secret", body)
	id := w.delivery(b, "done", "failed", "ignored")
	b.get("/repohost").want(http.StatusOK).wantText("push", "acme/deploy").wantInert()
	path := "/repohost/deliveries/" + id + "/redeliver"
	b.post(path, nil).wantLocation("/repohost")
	b.get("/repohost").wantText("will be processed again")
	w.otherOrg(access.Team).post(path, nil).want(http.StatusNotFound)
}

// deliver sends a push as the code host does.
func (b *browser) deliver(secret, body string) {
	b.w.T.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	b.w.here(b.w.Anonymous()).Do(http.MethodPost, "/api/v1/repohost/webhook", body, "X-GitHub-Event: push", "X-GitHub-Delivery: d-1",
		"X-Hub-Signature-256: sha256="+hex.EncodeToString(mac.Sum(nil))).Want(http.StatusAccepted)
}

// delivery waits for the only delivery to reach one of the states.
func (w *world) delivery(b *browser, states ...string) string {
	w.T.Helper()
	var id string
	apptest.Eventually(w.T, "a delivery", func() bool {
		for _, d := range b.api.Get("/api/v1/repohost/deliveries").Want(http.StatusOK).List("deliveries") {
			if slices.Contains(states, apptest.Text(d, "status")) {
				id = apptest.Text(d, "id")
			}
		}
		return id != ""
	})
	return id
}

func TestRepohostAccess(t *testing.T) {
	t.Parallel()
	repos := hosttest.NewRepos(t)
	w := newWorld(t, "sqlite", "--repohost-url", repos.Dir)
	repos.Create("acme/deploy").Push("first", map[string]string{"SKILL.md": hosttest.Skill("deploy", "Ships.")})
	b := w.as(access.Member)
	connection := b.bind(b.push("deploy", "0.1.0", map[string]string{"SKILL.md": skillText("deploy", "Ships", "x")}))
	viewer, other := w.as(access.Viewer), w.otherOrg(access.Pro)
	for _, path := range []string{"/repohost", "/repohost/connections/new", connection} {
		viewer.get(path).want(http.StatusForbidden)
	}
	other.get(connection).want(http.StatusNotFound)
	for _, path := range []string{connection, connection + "/sync", connection + "/delete"} {
		viewer.post(path, nil).want(http.StatusForbidden)
		other.post(path, nil).want(http.StatusNotFound)
		b.do("POST", path, nil, http.Header{"Sec-Fetch-Site": {"cross-site"}}).want(http.StatusForbidden)
	}
	other.get("/repohost").want(http.StatusOK).wantNoText("acme")
	w.otherOrg(access.Free).get("/repohost").want(http.StatusForbidden).wantText("needs the pro plan")
}

// TestRepohostAccounts says when an account is another's, and takes a token
// where the code host knows them.
func TestRepohostAccounts(t *testing.T) {
	t.Parallel()
	server := hosttest.NewGitea(t, hosttest.NewRepos(t))
	server.Tokens["token-of-acme"] = "acme"
	w := newWorld(t, "sqlite", "--repohost", "gitea", "--repohost-url", server.URL, "--repohost-token", server.Token, "--repohost-claims", "operator")
	b := w.as(access.Owner)
	form := url.Values{"installation_id": {"7"}, "account_login": {"acme"}, "account_type": {"Organization"}, "token": {"token-of-acme"}}
	b.post("/repohost/installations", form).want(http.StatusConflict).wantText("whetstone repohost allow ORG acme").
		wantNoText("token-of-acme")
	if err := claims.Allow(t.Context(), w.DB, w.org.ID, "acme", false); err != nil {
		t.Fatal(err)
	}
	b.post("/repohost/installations", form).wantLocation("/repohost")
	checkPage(t, b.get("/repohost").want(http.StatusOK).wantText("with its own token", "active").wantNoText("token-of-acme"))
	if err := claims.Release(t.Context(), w.DB, "acme"); err != nil {
		t.Fatal(err)
	}
	b.get("/repohost").want(http.StatusOK).wantText("suspended", "assigned to another organisation; contact the operator")
}
