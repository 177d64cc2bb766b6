package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/web"
)

// unaudited are the forms that change nothing of the organisation's.
var unaudited = map[string]string{
	"/theme": "a cookie", "/registry/lock-file": "asks; nothing of the file is kept", "/alerts/preview": "looks back only", "/login/device": "decides nothing: somebody has to approve it",
}

// auditor sends forms and looks for the entries that they leave.
type auditor struct {
	*browser
	covered map[string]bool
}

// check wants an entry of the action for the answer to a form.
func (a auditor) check(form, action string, p *page) *page {
	a.w.T.Helper()
	a.covered[form] = true
	if p.StatusCode >= 400 {
		a.w.T.Fatalf("%s: %d\n%s", p.name, p.StatusCode, p.body)
	}
	rows, err := a.w.DB.Query(a.w.T.Context(), `SELECT actor || ' ' || via FROM audit_entries WHERE request_id = $1 AND action = $2 AND org_id = $3`,
		p.Header.Get("X-Request-Id"), action, a.w.org.ID)
	found, err := store.All(rows, err, store.Value[string])
	if err != nil || len(found) != 1 || found[0] != "user web" {
		a.w.T.Errorf("%s left %v for %s, %v; want one entry of a user", p.name, found, action, err)
	}
	return p
}

func (a auditor) send(form, path, action string, values url.Values) *page {
	a.w.T.Helper()
	return a.check(form, action, a.post(path, values))
}

// TestFormsAreRecorded sends every form: what it changes is recorded as done
// by the person. A new form must be added here, or to unaudited.
func TestFormsAreRecorded(t *testing.T) {
	t.Parallel()
	repos := hosttest.NewRepos(t)
	repos.Create("acme/deploy").Push("first", map[string]string{"SKILL.md": hosttest.Skill("deploy", "Ships.")})
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	corp, second := oidctest.New(t), oidctest.New(t)
	w := newWorld(t, "sqlite", ssoFlags(corp, "--oidc", "second="+second.URL, "--oidc-client-id", "second="+oidctest.ClientID,
		"--oidc-client-secret", "second="+oidctest.ClientSecret,
		"--roles", "web", "--allow-private-targets", "--repohost-url", repos.Dir, "--repohost-webhook-secret", "hook-secret")...)
	b := w.browser()
	b.api = w.here(w.Member(w.org, access.Owner))
	a := auditor{b, map[string]bool{}}
	a.send("/login", "/login", "auth.session.start", url.Values{"api_key": {b.api.Key}})
	a.repohost()
	a.alerts(hook.URL)
	a.workshop()
	linking := auditor{w.browser(), a.covered}
	linking.follow("/login/oidc/corp?next=/account").wantLocation("/account")
	linking.follow("/account/link/second").wantLocation("/account/link")
	linking.send("/account/link", "/account/link", "auth.identity.link", nil)
	unlink := regexp.MustCompile(`/account/identities/[^"]+`).FindString(linking.get("/account").wantText("Sign-in accounts").body)
	linking.send("/account/identities/{id}/unlink", unlink, "auth.identity.unlink", nil)
	a.account()
	for _, path := range web.Forms() {
		if _, excused := unaudited[path]; !excused && !a.covered[path] {
			t.Errorf("POST %s changes something: record it with audit.Record and send it here, or add it to unaudited with a reason", path)
		}
	}
}

func (a auditor) repohost() {
	a.w.T.Helper()
	entry := a.push("deploy", "0.1.0", map[string]string{"SKILL.md": skillText("deploy", "Ships", "x")})
	a.push("deploy", "0.2.0", map[string]string{"SKILL.md": skillText("deploy", "Ships", "y")})
	a.send("/registry/{id}/rollback", "/registry/"+entry+"/rollback", "registry.version.rollback", url.Values{"version": {"0.1.0"}, "reason": {"worse"}})
	a.send("/registry/{id}/rollback/undo", "/registry/"+entry+"/rollback/undo", "registry.rollback.undo", nil)
	a.send("/registry/{id}/owners", "/registry/"+entry+"/owners", "teams.owners.set", url.Values{"owners": {a.api.User.Email}})
	a.send("/registry/{id}/publishers", "/registry/"+entry+"/publishers", "publishers.publisher.create", url.Values{"repository": {"acme/deploy"}})
	publisher := a.api.Get("/api/v1/trusted-publishers").List("trusted_publishers")[0]["id"].(string)
	a.send("/registry/{id}/publishers/{publisher}/delete", "/registry/"+entry+"/publishers/"+publisher+"/delete", "publishers.publisher.delete", nil)
	policy := url.Values{"mode": {"enforce"}, "trials": {"3"}, "min_cases": {"8"}, "max_minutes": {"30"}, "on_inconclusive": {"hold"}}
	a.send("/settings/gate-policy", "/settings/gate-policy", "gates.policy.change", policy)
	a.send("/registry/{id}/gate-policy", "/registry/"+entry+"/gate-policy", "gates.policy.change", policy)
	a.hold("deploy", "0.3.0", map[string]string{"SKILL.md": skillText("deploy", "Ships", "z")})
	gate := func() string { return "/gates/" + a.api.Get("/api/v1/gates").List("gates")[0]["id"].(string) }
	a.send("/gates/{id}/rerun", gate()+"/rerun", "gates.gate.rerun", nil)
	a.send("/gates/{id}/override", gate()+"/override", "gates.gate.override", url.Values{"reason": {"good"}})
	policy.Set("mode", "off")
	a.send("/settings/gate-policy", "/settings/gate-policy", "gates.policy.change", policy)
	policy.Set("approvals", "1")
	a.send("/registry/{id}/gate-policy", "/registry/"+entry+"/gate-policy", "gates.policy.change", policy)
	a.hold("deploy", "0.4.0", map[string]string{"SKILL.md": skillText("deploy", "Ships", "people")})
	review := "/registry/" + entry + "/versions/0.4.0/review"
	a.send("/registry/{id}/versions/{version}/review", review, "approvals.version.reject", url.Values{"decision": {"reject"}})
	a.send("/registry/{id}/versions/{version}/review/override", review+"/override", "approvals.version.override", url.Values{"reason": {"good"}})
	policy.Set("approvals", "0")
	a.send("/registry/{id}/gate-policy", "/registry/"+entry+"/gate-policy", "gates.policy.change", policy)
	a.send("/repohost/settings", "/repohost/settings", "repohost.settings.change", url.Values{"mode": {"checks"}})
	a.send("/repohost/installations", "/repohost/installations", "repohost.installation.bind",
		url.Values{"installation_id": {"7"}, "account_login": {"acme"}, "account_type": {"Organization"}})
	a.send("/repohost/connections", "/repohost/connections", "repohost.connection.create", url.Values{
		"installation_id": {"7"}, "entry_id": {entry}, "repo_full_name": {"acme/deploy"},
		"default_branch": {"main"}, "skill_path": {"."}, "tag_pattern": {"v*"},
	})
	all := a.api.Get("/api/v1/repohost/connections").Want(http.StatusOK).List("connections")
	path := "/repohost/connections/" + all[0]["id"].(string)
	a.send("/repohost/connections/{id}", path, "repohost.connection.change", url.Values{"write_back": {"on"}})
	a.send("/repohost/connections/{id}/sync", path+"/sync", "repohost.connection.sync", nil)
	a.deliver("hook-secret", `{"ref":"refs/heads/main","repository":{"full_name":"acme/deploy"},"installation":{"id":7}}`)
	deliveries := a.api.Get("/api/v1/repohost/deliveries").Want(http.StatusOK).List("deliveries")
	a.send("/repohost/deliveries/{id}/redeliver", "/repohost/deliveries/"+deliveries[0]["id"].(string)+"/redeliver", "repohost.delivery.redeliver", nil)

	source := apptest.Text(a.api.Post("/api/v1/cloud-sources", object{
		"type": "repohost", "label": "r", "installation_id": 7, "repo_full_name": "acme/deploy",
	}).Want(http.StatusCreated).Object(), "id")
	a.send("/sources/{id}/sync", "/sources/"+source+"/sync", "sources.snapshot.create", nil)
	a.send("/repohost/connections/{id}/delete", path+"/delete", "repohost.connection.delete", nil)
	a.send("/registry/{id}/visibility", "/registry/"+entry+"/visibility", "registry.entry.visibility", url.Values{"visibility": {"unlisted"}})
	a.send("/registry/{id}/delete", "/registry/"+entry+"/delete", "registry.entry.delete", url.Values{"confirm": {"deploy"}})
}

func (a auditor) alerts(address string) {
	a.w.T.Helper()
	a.send("/alerts", "/alerts", "alerts.rule.create", alertOn(address))
	path := a.onlyAlert()
	a.send("/alerts/{id}", path, "alerts.rule.change", url.Values{"pass_rate": {"50"}, "sensitivity": {"point"}, "channel": {"webhook"}})
	a.send("/alerts/{id}/enabled", path+"/enabled", "alerts.rule.change", url.Values{"enabled": {"false"}})
	a.send("/alerts/{id}/ack", path+"/ack", "alerts.rule.acknowledge", nil)
	a.send("/alerts/{id}/snooze", path+"/snooze", "alerts.rule.snooze", url.Values{"hours": {"24"}})
	a.send("/alerts/{id}/test", path+"/test", "alerts.rule.test", nil)
	a.send("/alerts/{id}/rotate-secret", path+"/rotate-secret", "alerts.rule.rotate-secret", nil)
	a.send("/alerts/{id}/delete", path+"/delete", "alerts.rule.delete", nil)
}

// workshop is sources, suites, runs, reviews and proposals.
func (a auditor) workshop() {
	t := a.w.T
	t.Helper()
	uploaded := a.check("/sources/upload", "sources.source.create",
		a.browser.send("/sources/upload", map[string]string{"label": "pdf"}, map[string]string{"SKILL.md": goodText}))
	path := uploaded.Header.Get("Location")
	a.send("/sources/{id}", path, "sources.source.change", url.Values{"label": {"tables"}})
	a.check("/sources/{id}/upload", "sources.snapshot.create", a.browser.send(path+"/upload", nil, map[string]string{"SKILL.md": goodText + "More.\n"}))

	suite := a.send("/suites/new", "/suites/new", "evals.suite.create", suiteForm("all", "one")).Header.Get("Location")
	a.check("/suites/import", "evals.suite.create", a.browser.send("/suites/import",
		map[string]string{"name": "again"}, map[string]string{"file": `[{"query":"a","should_trigger":true}]`}))
	form := suiteForm("renamed", "one")
	form.Set("version", "1")
	a.send("/suites/{id}", suite, "evals.suite.change", form)
	a.send("/suites/{id}/cases/{n}", suite+"/cases/0", "evals.suite.change", url.Values{"asked": {"x"}, "expected": {"should_trigger"}, "version": {"2"}})
	run := a.send("/suites/{id}/runs", suite+"/runs", "evals.run.start", url.Values{"subject": {"source:" + id(path)}}).Header.Get("Location")
	a.send("/runs/{id}/cancel", run+"/cancel", "evals.run.cancel", nil)
	a.covered["/catalogue/runs"] = true
	pair := a.post("/catalogue/runs", url.Values{"suite": {id(suite)}, "agent": {"codex"}, "context_window": {"0"}, "trials": {"1"}}).want(http.StatusSeeOther)
	if n := a.w.Count(`audit_entries WHERE request_id = $1 AND action = 'evals.run.start' AND via = 'web'`, pair.Header.Get("X-Request-Id")); n != 2 {
		a.w.T.Errorf("two runs left %d entries", n)
	}
	a.check("/suites/{id}/runs/import", "evals.run.import", a.browser.send(suite+"/runs/import", nil, map[string]string{"file": resultFile}))
	many := a.newSuite("many", invoices...)
	improve := a.send("/suites/{id}/improve-runs", many+"/improve-runs", "evals.improve.start", url.Values{"subject": {"source:" + id(path)}}).Header.Get("Location")
	compared := a.send("/comparisons", "/comparisons", "evals.comparison.start", url.Values{
		"suite": {strings.TrimPrefix(many, "/suites/")}, "arm": {"source:" + id(path), "source:" + id(path)}, "agent": {"", "claude-code"},
	}).Header.Get("Location")
	a.send("/comparisons/{id}/cancel", compared+"/cancel", "evals.comparison.cancel", nil)
	a.send("/improve-runs/{id}/cancel", improve+"/cancel", "evals.improve.cancel", nil)
	a.send("/suites/{id}/delete", suite+"/delete", "evals.suite.delete", nil)

	suggestion, err := json.Marshal(object{"ID": uuid.NewString(), "Query": "q", "Provenance": "missed_query", "LastObservedAt": time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	a.send("/review", "/review", "sources.review.set", url.Values{"decision": {"accept"}, "source": {id(path)}, "case": {string(suggestion)}})
	a.send("/sources/{id}/drafts", path+"/drafts", "sources.review.set", url.Values{"target": {"new"}, "name": {"Drafts"}})
	a.traced("traced", "pdf", time.Now())
	a.send("/sources/{id}", path, "sources.source.change", url.Values{"label": {"tables"}, "skill": {a.skillID("pdf")}})
	a.send("/sessions/{session}/cases", "/sessions/traced/cases", "sources.review.set", url.Values{"query": {"q"}, "target": {id(path)}})
	a.send("/sessions/{session}/grades", "/sessions/traced/grades", "grades.session.grade", url.Values{"skill": {"pdf"}, "verdict": {"pass"}})
	grader := url.Values{"expectations": {"It names the page."}, "threshold": {"100"}}
	a.send("/skills/{skill}/grader", "/skills/pdf/grader", "grades.grader.change", grader)
	a.send("/settings/grader", "/settings/grader", "grades.grader.change", grader)
	a.send("/skills/{skill}/improve-policy", "/skills/pdf/improve-policy", "improve.policy.change", url.Values{"mode": {"propose"}, "monthly_usd": {"5"}})
	a.send("/review/undo", "/review/undo", "sources.review.clear", nil)
	a.send("/sources/{id}/delete", path+"/delete", "sources.source.delete", nil)

	a.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Old", "x")})
	value := "Reads."
	propose := func(finding string) (id string) {
		err := a.w.DB.InTx(t.Context(), func(tx *store.Tx) (err error) {
			id, err = (&proposals.Service{DB: a.w.DB}).Propose(t.Context(), tx, proposals.Draft{
				OrgID: a.w.org.ID, SkillName: "pdf", Finding: finding, Type: proposals.Description, ProposedValue: &value,
				Reason: "x", Evidence: object{}, ProposedBy: "signals",
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	proposal := propose("missed")
	a.send("/proposals", "/proposals", "proposals.proposal.move", url.Values{"decision": {"reject"}, "selected": {propose("failed")}})
	a.send("/skills/{skill}", "/skills/pdf", "skills.skill.hide", url.Values{"change": {"hide"}})
	a.send("/proposals/{id}", "/proposals/"+proposal, "proposals.proposal.move", url.Values{"decision": {"approve"}})
	a.send("/proposals/{id}/apply", "/proposals/"+proposal+"/apply", "proposals.proposal.apply", url.Values{"as": {"version"}})
}

func (a auditor) account() {
	t := a.w.T
	t.Helper()
	for answer, action := range map[string]string{"approve": "auth.device.approve", "deny": "auth.device.deny"} {
		login, err := a.w.Auth.StartDevice(t.Context(), "cli", "")
		if err != nil {
			t.Fatal(err)
		}
		a.send("/device", "/device", action, url.Values{"code": {login.UserCode}, "answer": {answer}})
	}
	key := a.w.Member(a.w.org, access.Member)
	a.send("/settings/keys/{id}/revoke", "/settings/keys/"+key.KeyID+"/revoke", "auth.key.revoke", nil)
	a.send("/settings/keys", "/settings/keys", "auth.key.create", url.Values{"name": {"CI"}, "days": {"90"}, "preset": {"ci"}})
	a.send("/settings/connect", "/settings/connect", "auth.key.create", url.Values{"for": {"agents"}})
	catalogToken := func() string {
		made, _, err := (&tokens.Service{Kind: tokens.Catalog, DB: a.w.DB}).Create(t.Context(), access.Caller{OrgID: a.w.org.ID}, "laptops", nil)
		if err != nil {
			t.Fatal(err)
		}
		return "/settings/catalog/" + made.ID
	}
	a.send("/settings/webhooks", "/settings/webhooks", "events.webhook.create",
		url.Values{"action": {"create"}, "url": {"http://127.0.0.1:1/x"}, "events": {"version.published"}})
	a.send("/settings/catalog", "/settings/catalog", "catalog.token.create", url.Values{"name": {"CI"}})
	a.send("/settings/catalog/{id}/rotate", catalogToken()+"/rotate", "catalog.token.rotate", url.Values{"overlap": {"1"}})
	a.send("/settings/catalog/{id}/delete", catalogToken()+"/delete", "catalog.token.delete", nil)
	a.send("/settings/content", "/settings/content", "evidence.setting.change", url.Values{"action": {"on"}})
	a.send("/settings/privacy", "/settings/privacy", "privacy.export.start", url.Values{"action": {"export"}})
	a.send("/settings/prices", "/settings/prices", "costs.prices.change", url.Values{"reset": {"true"}})
	invitation := func(email string) (id, token string) {
		caller, err := a.w.Auth.Authenticate(t.Context(), a.api.Key)
		if err != nil {
			t.Fatal(err)
		}
		made, token, err := (&members.Service{DB: a.w.DB, Auth: a.w.Auth}).Invite(t.Context(), caller, members.NewInvitation{Role: access.Member, Email: email})
		if err != nil {
			t.Fatal(err)
		}
		return made.ID, token
	}
	a.send("/settings/members/invitations", "/settings/members/invitations", "auth.invitation.create", url.Values{"email": {"new@example.org"}, "role": {"member"}})
	id, _ := invitation("")
	a.send("/settings/members/invitations/{id}/revoke", "/settings/members/invitations/"+id+"/revoke", "auth.invitation.revoke", nil)
	a.provisioning()
	a.teamsAndMachines()
	a.send("/settings/members/{id}/role", "/settings/members/"+key.User.ID+"/role", "auth.user.set-role", url.Values{"role": {"viewer"}})
	a.send("/settings/members/{id}/remove", "/settings/members/"+key.User.ID+"/remove", "auth.user.remove", nil)
	heir := a.w.Member(a.w.org, access.Member)
	a.send("/settings/members/{id}/transfer", "/settings/members/"+heir.User.ID+"/transfer", "auth.user.transfer", nil)
	if _, err := a.w.Auth.SetRoleByOperator(t.Context(), a.w.org.ID, a.api.User.ID, access.Owner); err != nil {
		t.Fatal(err)
	}
	_, token := invitation("")
	joining := auditor{a.w.browser(), a.covered}
	joining.send("/invite/{token}", "/invite/"+token, "auth.invitation.accept", url.Values{"name": {"Bob"}, "email": {"bob@example.org"}})
	joining.send("/account/leave", "/account/leave", "auth.user.remove", url.Values{"email": {"bob@example.org"}})

	second := a.w.browser()
	second.post("/login", url.Values{"api_key": {a.api.Key}}).want(http.StatusSeeOther)
	caller, err := (&auth.Service{DB: a.w.DB}).Authenticate(t.Context(), a.api.Key)
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := a.w.Auth.Sessions(t.Context(), caller.OrgID, caller.UserID)
	if err != nil || len(sessions) != 2 {
		t.Fatalf("sessions %v, %v", sessions, err)
	}
	a.send("/account/sessions/{id}/end", "/account/sessions/"+sessions[0].ID+"/end", "auth.session.end", nil)
	a.post("/login/device", nil)
	a.post("/device", url.Values{"code": {a.get("/login/device").texts("strong")[0]}, "answer": {"approve"}}).wantLocation("/device")
	a.send("/login/device/finish", "/login/device/finish", "auth.session.start", nil)
	a.send("/logout", "/logout", "auth.session.end", nil)
}

// teamsAndMachines sends the forms of teams and service accounts.
func (a auditor) teamsAndMachines() {
	a.w.T.Helper()
	team := a.send("/settings/teams", "/settings/teams", "teams.team.create", url.Values{"name": {"Docs"}}).Header.Get("Location")
	a.send("/settings/teams/{id}", team, "teams.team.members", url.Values{"action": {"add"}, "members": {a.api.User.Email}})
	a.send("/settings/teams/{id}", team, "teams.team.change", url.Values{"action": {"change"}, "name": {"Writers"}})
	a.send("/settings/teams/{id}/delete", team+"/delete", "teams.team.delete", nil)
	account := a.send("/settings/service-accounts", "/settings/service-accounts", "auth.serviceaccount.create",
		url.Values{"name": {"bot"}, "role": {"member"}}).Header.Get("Location")
	a.send("/settings/service-accounts/{id}", account, "auth.key.create", url.Values{"action": {"key"}, "name": {"CI"}, "preset": {"ci"}})
	a.send("/settings/service-accounts/{id}", account, "auth.serviceaccount.update",
		url.Values{"action": {"change"}, "name": {"bot"}, "role": {"viewer"}})
	a.send("/settings/service-accounts/{id}/delete", account+"/delete", "auth.serviceaccount.delete", nil)
	a.send("/settings/key-policy", "/settings/key-policy", "auth.keypolicy.set", url.Values{"max_days": {"3650"}})
}

// provisioning sends the forms of SCIM tokens and groups.
func (a auditor) provisioning() {
	t := a.w.T
	t.Helper()
	made := a.send("/settings/provisioning", "/settings/provisioning", "scim.token.create", url.Values{"name": {"okta"}})
	raw := regexp.MustCompile(`scim_[0-9A-Za-z]{43}`).FindString(made.body)
	provider := a.w.here(&apptest.Caller{T: t, Key: raw})
	group := provider.Post("/scim/v2/Groups", apptest.Object{"displayName": "Engineering"}).Want(http.StatusCreated).Text("id")
	a.send("/settings/provisioning/groups/{id}/role", "/settings/provisioning/groups/"+group+"/role", "scim.group.set-role", url.Values{"role": {"admin"}})
	tokens := a.api.Get("/api/v1/scim-tokens").Want(http.StatusOK).List("scim_tokens")
	a.send("/settings/provisioning/{id}/delete", "/settings/provisioning/"+apptest.Text(tokens[0], "id")+"/delete", "scim.token.delete", nil)
}
