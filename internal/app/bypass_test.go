package app_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
)

// bypassSequences is how many random sequences are tried on each database; make
// bypass tries 2,000.
var bypassSequences = flag.Int("bypass-sequences", 10, "random sequences of calls that try to get around a gate, on each database")

// TestBypass: whatever members, a viewer, a service account and narrowed keys call,
// in any order, no version that the gate blocks or that lacks its approval is
// published, and no one gains or loses a permission. Only the organisation's owner
// could allow that, who does nothing during a sequence.
func TestBypass(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(fmt.Sprint(*bypassSequences)); err != nil {
			t.Fatal(err)
		}
	}
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		b := newBypass(t, flags)
		sequence := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				Actor: rapid.SampledFrom(b.actors).Draw(rt, "actor"),
				Call:  rapid.SampledFrom(bypassCalls).Draw(rt, "call"),
				Seed:  rapid.Uint64().Draw(rt, "seed"),
				Wait:  rapid.Bool().Draw(rt, "wait"),
			}
		}), 3, 10)
		rapid.Check(t, func(rt *rapid.T) {
			a := b.attempt(rt, rapid.SampledFrom(bypassRules).Draw(rt, "rule"))
			before := a.permissions()
			for i, s := range sequence.Draw(rt, "sequence") {
				rt.Logf("%2d %s", i+1, a.do(s))
				if s.Wait {
					a.settle()
				}
			}
			a.settle()
			a.wantHeld()
			if diff := cmp.Diff(before, a.permissions()); diff != "" {
				rt.Fatalf("permissions changed (-before +after):\n%s", diff)
			}
		})
	})
}

// A step is one call of a sequence.
type step struct {
	Actor string
	Call  bypassCall
	Seed  uint64 // of what the call chooses
	Wait  bool   // until its jobs are done
}

// A bypassRule is what holds the versions of an entry. In its texts <suite>, <owner>
// and <team> stand for ids.
type bypassRule struct {
	Name     string
	Policy   string // "": the organisation's default
	Owners   string
	Approval bool // no further version may be published: its owners approve none
}

func (r bypassRule) String() string { return r.Name }

var bypassRules = []bypassRule{
	{Name: "a gate with a suite", Policy: `{"mode":"enforce","trials":1,"suites":["<suite>"]}`},
	{Name: "a gate with the suites of the source", Policy: `{"mode":"enforce","trials":1}`},
	{Name: "a gate by default"},
	{Name: "a gate, and owners", Policy: `{"mode":"enforce","trials":1,"suites":["<suite>"]}`, Owners: `{"users":["<owner>"]}`},
	{Name: "approvals", Policy: `{"mode":"off","approvals":1}`, Owners: `{"users":["<owner>"]}`, Approval: true},
	{Name: "approvals of a team", Policy: `{"mode":"off","approvals":1}`, Owners: `{"teams":["<team>"]}`, Approval: true},
	{
		Name:   "a gate and approvals",
		Policy: `{"mode":"enforce","trials":1,"suites":["<suite>"],"approvals":1}`, Owners: `{"users":["<owner>"]}`, Approval: true,
	},
}

// A bypass is a service with two organisations; in the second one every entry is
// gated by default.
type bypass struct {
	t            *testing.T
	service      *service
	repos        *hosttest.Repos
	routes       []httpapi.Route // that change something
	actors       []string
	plain, gated *bypassOrg
}

type bypassOrg struct {
	account      string // on the code host
	installation int
	owner, team  string // ids; the owner is the team
	ownerKey     string
	keys         map[string]string // raw, by actor
	member       string            // id of the actor "member"
	outside      string            // a repository that the member writes
}

// unfit stands in the descriptions of versions that fail their suite.
const unfit = "unfit"

var asked = regexp.MustCompile(`e-[0-9a-f-]{36}`)

// routeFit decides trigger queries: the entry that a query names is chosen if its
// description is among those offered, and fit.
func routeFit(r judgetest.Request) judgetest.Reply {
	answer := map[string]any{"reason": "as scripted", "skill": nil, "confidence": 0.9}
	name := asked.FindString(r.User)
	_, described, found := strings.Cut(r.System, "<name>"+name+"</name>")
	described, _, _ = strings.Cut(described, "<name>")
	if found && !strings.Contains(described, unfit) {
		answer["skill"] = name
	}
	return judgetest.JSON(answer)
}

func newBypass(t *testing.T, flags []string) *bypass {
	t.Helper()
	model := judgetest.New(t, routeFit)
	c := settings(t, append(flags, "--judge-api", judgetest.OpenAI, "--judge-url", model.URL(judgetest.OpenAI), "--judge-model", "scripted")...)
	s := start(t, c)
	b := &bypass{t: t, service: s, repos: hosttest.At(t, filepath.Join(c.Data, "repos"))}
	for _, r := range s.Routes() {
		if r.Method != http.MethodGet && !r.Public && !strings.HasPrefix(r.Path, "/scim/") {
			b.routes = append(b.routes, r)
		}
	}
	b.plain, b.gated = b.newOrg("plain", 11), b.newOrg("gated", 12)
	b.as(t, b.gated.ownerKey).Do(http.MethodPut, "/api/v1/settings/gate-policy", `{"policy":{"mode":"enforce","trials":1}}`).Want(http.StatusOK)
	b.actors = slices.Sorted(maps.Keys(b.plain.keys))
	return b
}

func (b *bypass) as(t apptest.T, key string) *apptest.Caller {
	return &apptest.Caller{T: t, URL: b.service.url, Key: key}
}

// newOrg makes an organisation with an owner, and the people who try.
func (b *bypass) newOrg(account string, installation int) *bypassOrg {
	b.t.Helper()
	org, err := b.service.Auth().CreateOrg(b.t.Context(), account, access.Enterprise)
	if err != nil {
		b.t.Fatal(err)
	}
	o := &bypassOrg{account: account, installation: installation, keys: map[string]string{}}
	issue := func(actor, person string, role access.Role, may ...access.Permission) (raw, userID string) {
		holder := auth.Holder{Email: person + "@" + account + ".example", Role: role}
		u, _, raw, err := b.service.Auth().IssueKey(b.t.Context(), holder, auth.NewKey{OrgID: org.ID, Name: actor, Permissions: may})
		if err != nil {
			b.t.Fatal(err)
		}
		return raw, u.ID
	}
	o.ownerKey, o.owner = issue("owner", "owner", access.Owner)
	o.keys["member"], o.member = issue("member", "member", access.Member)
	o.keys["another member"], _ = issue("another member", "another", access.Member)
	o.keys["viewer"], _ = issue("viewer", "viewer", access.Viewer)
	o.keys["narrowed member"], _ = issue("narrowed member", "member", access.Member, access.Read, access.Write)
	o.keys["narrowed owner"], _ = issue("narrowed owner", "owner", access.Owner, access.Read, access.Write, access.RegistryPush, access.RegistryInstall)
	owner := b.as(b.t, o.ownerKey)
	machine := owner.Post("/api/v1/service-accounts", `{"name":"machine","role":"member"}`).Want(http.StatusCreated).Text("service_account", "id")
	o.keys["service account"] = owner.Post("/api/v1/keys", `{"name":"machine","service_account_id":"`+machine+`"}`).Want(http.StatusCreated).Text("api_key")
	o.team = owner.Post("/api/v1/teams", `{"name":"owners"}`).Want(http.StatusCreated).Text("team", "id")
	owner.Do(http.MethodPut, "/api/v1/teams/"+o.team+"/members", `{"users":["`+o.owner+`"]}`).Want(http.StatusOK)
	if err := claims.Allow(b.t.Context(), b.service.DB(), org.ID, account, false); err != nil {
		b.t.Fatal(err)
	}
	o.outside = account + "/outside"
	b.repos.Create(o.outside).Push("mine", map[string]string{
		"SKILL.md": skillText("outside", unfit), "CODEOWNERS": "* member@" + account + ".example\n",
	})
	owner.Post("/api/v1/repohost/installations",
		fmt.Sprintf(`{"installation_id":%d,"account_login":%q,"account_type":"Organization"}`, installation, account)).Want(http.StatusCreated)
	return o
}

func skillText(name, mark string) string {
	return "---\nname: " + name + "\ndescription: Reads tables, " + mark + ". Use it when somebody asks for numbers.\n---\n# Tables\n\nRead them.\n"
}

// An attempt is an entry whose version 1.0.0 is good, with all that belongs to it.
type attempt struct {
	*bypass
	rt     *rapid.T
	org    *bypassOrg
	rule   bypassRule
	name   string
	things apptest.Things
	work   *hosttest.Work // clone of the connected repository
	pushed int            // versions
}

// attempt makes an entry whose versions a rule holds.
func (b *bypass) attempt(rt *rapid.T, rule bypassRule) *attempt {
	rt.Helper()
	a := &attempt{bypass: b, rt: rt, org: b.plain, rule: rule, name: "e-" + uuid.NewString()}
	if rule.Policy == "" {
		a.org = b.gated
	}
	owner := b.as(rt, a.org.ownerKey)
	a.things = apptest.Things{
		"text": "text", "archive": a.archive(unfit), "account": a.org.account, "installation": fmt.Sprint(a.org.installation),
		"repository": a.org.outside, "skill_name": a.name, "entry_name": a.name, "owner": a.org.owner, "user": a.org.member,
		"member": a.org.member, "team": a.org.team, "suggestion": uuid.NewString(),
	}
	a.things["entry"] = a.upload(owner, "/api/v1/registry", "1.0.0", "fit").Text("entry", "id")
	a.settle() // without a suite it passes the organisation's gate
	a.things["skill"] = owner.Get("/v1/skills/"+a.name).Want(http.StatusOK).Text("skill", "skill_id")
	source := owner.Upload("/api/v1/cloud-sources/upload", apptest.Part{Name: "label", Content: []byte(a.name)},
		apptest.Part{Name: "skill_id", Content: []byte(a.things["skill"])},
		apptest.Part{Name: "file", File: "skill.tar.gz", Content: []byte(a.archive("fit"))}).Want(http.StatusCreated).Object()
	a.things["source"], a.things["snapshot"] = apptest.Text(source, "id"), apptest.Text(source, "snapshot", "id")
	var queries []string
	for i := range 10 {
		queries = append(queries, fmt.Sprintf(`{"case_kind":"trigger_query","query":"query %d of %s","expectation":"should_trigger"}`, i, a.name))
	}
	a.things["suite"] = owner.Post("/api/v1/eval-suites", `{"name":"suite","source_id":"`+a.things["source"]+
		`","source_kind":"manual","verifier_kind":"llm_judge","cases_json":[`+strings.Join(queries, ",")+`]}`).Want(http.StatusCreated).Text("suite", "id")
	a.things["queries"] = a.things["suite"]
	entry := "/api/v1/registry/" + a.things["entry"]
	if rule.Owners != "" {
		owner.Do(http.MethodPut, entry+"/owners", a.filled(rule.Owners)).Want(http.StatusOK)
	}
	if rule.Policy != "" {
		owner.Do(http.MethodPut, entry+"/gate-policy", a.filled(`{"policy":`+rule.Policy+`}`)).Want(http.StatusOK)
	}
	a.work = b.repos.Create(a.org.account + "/" + a.name)
	a.work.Push("good", map[string]string{"SKILL.md": skillText(a.name, "fit")})
	a.things["connection"] = owner.Post("/api/v1/repohost/connections", fmt.Sprintf(`{"entry_id":%q,"installation_id":%d,"repo_full_name":%q}`,
		a.things["entry"], a.org.installation, a.work.FullName)).Want(http.StatusCreated).Text("id")
	return a
}

func (a *attempt) archive(mark string) string {
	return apptest.Pack(a.t, "SKILL.md", skillText(a.name, mark))
}

func (a *attempt) upload(c *apptest.Caller, path, version, mark string) apptest.Response {
	return c.Upload(path, apptest.Part{Name: "metadata", Content: fmt.Appendf(nil, `{"name":%q,"version":%q}`, a.name, version)},
		apptest.Part{Name: "archive", File: "skill.tar.gz", Content: []byte(a.archive(mark))})
}

// filled puts the attempt's things in place of their kinds.
func (a *attempt) filled(text string) string {
	for kind, value := range a.things {
		text = strings.ReplaceAll(text, "<"+kind+">", value)
	}
	return text
}

// do makes a call and says what it was and what came of it.
func (a *attempt) do(s step) string {
	a.rt.Helper()
	r := s.Call.ask(a, a.as(a.rt, a.org.keys[s.Actor]), rand.New(rand.NewPCG(s.Seed, 1)))
	if r.Status == http.StatusInternalServerError {
		a.rt.Fatalf("%s by the %s: %d %s", r.What, s.Actor, r.Status, r.Body)
	}
	if r.Status == 0 {
		return s.Call.name
	}
	return fmt.Sprintf("%s (%s): %s %d %.120s", s.Call.name, s.Actor, r.What, r.Status, r.Body)
}

// A bypassCall is one kind of call.
type bypassCall struct {
	name string
	ask  func(a *attempt, c *apptest.Caller, random *rand.Rand) apptest.Response
}

func (c bypassCall) String() string { return c.name }

// request is a call with one of several bodies.
func request(method, path string, bodies ...string) bypassCall {
	return bypassCall{method + " " + path, func(a *attempt, c *apptest.Caller, random *rand.Rand) apptest.Response {
		return c.Do(method, a.filled(path), a.filled(bodies[random.IntN(len(bodies))]))
	}}
}

// versioned is a call about one of the entry's versions.
func versioned(action string, body string) bypassCall {
	return bypassCall{action, func(a *attempt, c *apptest.Caller, random *rand.Rand) apptest.Response {
		all := a.versions()
		version := apptest.Text(all[random.IntN(len(all))], "version")
		return c.Post(a.filled("/api/v1/registry/<entry>")+strings.ReplaceAll(action, "<version>", version), strings.ReplaceAll(body, "<version>", version))
	}}
}

// ofGate is a call about one of the entry's gates.
func ofGate(action string) bypassCall {
	return bypassCall{action, func(a *attempt, c *apptest.Caller, random *rand.Rand) apptest.Response {
		gates := a.gates()
		if len(gates) == 0 {
			return apptest.Response{}
		}
		return c.Post("/api/v1/gates/"+apptest.Text(gates[random.IntN(len(gates))], "id")+action, `{"reason":"because"}`)
	}}
}

// written is a commit to a branch or tag of the entry's repository, or of the
// member's own, by whoever may write there.
var written = bypassCall{"commit", func(a *attempt, _ *apptest.Caller, random *rand.Rand) apptest.Response {
	a.pushed++
	a.work.Commit(fmt.Sprint("change ", a.pushed), map[string]string{
		"SKILL.md":   skillText(a.name, []string{unfit, "fit"}[random.IntN(2)]) + fmt.Sprint(a.pushed),
		"CODEOWNERS": "* member@" + a.org.account + ".example\n",
	})
	// Fetching runs no hook, which here would be this test's program.
	refs := []string{"heads/other", "heads/main", "tags/v0.9.0", "tags/v3.0.0"}
	a.repos.Git(a.work.FullName, "fetch", "--quiet", a.work.Dir, "+HEAD:refs/"+refs[random.IntN(len(refs))])
	return apptest.Response{}
}}

var pushVersion = bypassCall{"push a version", func(a *attempt, c *apptest.Caller, random *rand.Rand) apptest.Response {
	a.pushed++
	version := []string{fmt.Sprintf("2.0.%d", a.pushed), fmt.Sprintf("0.1.%d", a.pushed), fmt.Sprintf("0.0.0-repohost.%07x", 0xa000000+a.pushed)}
	return a.upload(c, a.filled("/api/v1/registry/<entry>/versions"), version[random.IntN(3)], []string{unfit, unfit, "fit"}[random.IntN(3)])
}}

// anyRoute asks any route that changes something, as apptest knows how.
var anyRoute = bypassCall{"any route", func(a *attempt, c *apptest.Caller, random *rand.Rand) apptest.Response {
	for {
		route := a.routes[random.IntN(len(a.routes))]
		row := apptest.Rows()[apptest.RouteName(route.Method, route.Path)]
		known := true
		for _, kind := range append(row.PathKinds(), row.BodyKinds()...) {
			known = known && a.things[kind] != ""
		}
		if !known {
			continue
		}
		r := row.Request(a.t, route, a.things)
		var headers []string
		for name, values := range r.Header {
			headers = append(headers, name+": "+values[0])
		}
		return c.Do(r.Method, r.Path, r.Body, headers...)
	}
}}

// always are cases that pass whatever the skill is.
const always = `{"cases_json":[{"case_kind":"trigger_query","query":"query 0","expectation":"should_not_trigger"},` +
	`{"case_kind":"trigger_query","query":"query 1","expectation":"should_not_trigger"}]}`

var bypassCalls = []bypassCall{
	pushVersion, pushVersion, pushVersion, written, written, anyRoute, anyRoute,
	versioned("/versions/<version>/promote", `{"reason":"because"}`),
	versioned("/versions/<version>/withdraw", `{"reason":"because"}`),
	versioned("/versions/<version>/restore", `{}`),
	versioned("/versions/<version>/approvals", `{"decision":"approve"}`),
	versioned("/versions/<version>/approvals/override", `{"reason":"because"}`),
	versioned("/rollback", `{"target_version":"<version>","reason":"because"}`),
	versioned("/rollback", `{"target_version":"<version>","reason":"because","roll_forward":true}`),
	request("POST", "/api/v1/registry/<entry>/rollback/undo", `{"reason":"because"}`),
	ofGate("/override"), ofGate("/rerun"),
	request("PATCH", "/api/v1/eval-suites/<suite>", always, `{"cases_json":[]}`, `{"resource_limits_json":{"timeout_ms":1}}`, `{"name":"renamed"}`),
	request("DELETE", "/api/v1/eval-suites/<suite>", ""),
	request("PATCH", "/api/v1/cloud-sources/<source>", `{"skill_id":null}`, `{"label":"renamed"}`),
	request("DELETE", "/api/v1/cloud-sources/<source>", ""),
	request("PUT", "/api/v1/registry/<entry>/owners", `{"users":["<member>"],"teams":[]}`, `{"users":[],"teams":[]}`),
	request("PUT", "/api/v1/registry/<entry>/gate-policy", `{"policy":{"mode":"off"}}`, `{"policy":{"mode":"report","approvals":0}}`),
	request("PUT", "/api/v1/settings/gate-policy", `{"policy":{"mode":"off"}}`),
	request("PUT", "/api/v1/teams/<team>/members", `{"users":["<member>"]}`),
	request("PATCH", "/api/v1/members/<member>", `{"role":"owner"}`),
	request("POST", "/api/v1/keys", `{"name":"more"}`, `{"name":"more","permissions":["admin","registry:rollback"]}`),
	request("POST", "/api/v1/repohost/connections",
		`{"entry_id":"<entry>","installation_id":<installation>,"repo_full_name":"<repository>"}`,
		`{"entry_id":"<entry>","installation_id":<installation>,"repo_full_name":"<repository>","codeowners":true}`),
	request("PATCH", "/api/v1/repohost/connections/<connection>", `{"default_branch":"other"}`, `{"codeowners":true}`,
		`{"default_branch":"other","codeowners":true}`, `{"tag_pattern":"v*"}`, `{"auto_publish":true}`),
	{"cancel a run", func(a *attempt, c *apptest.Caller, random *rand.Rand) apptest.Response {
		found := a.as(a.rt, a.org.ownerKey).Get("/api/v1/eval-suites/" + a.things["suite"] + "/runs")
		if found.Status != http.StatusOK { // the suite may be gone
			return apptest.Response{}
		}
		made := found.List("runs")
		if len(made) == 0 {
			return apptest.Response{}
		}
		return c.Post("/api/v1/eval-runs/"+apptest.Text(made[random.IntN(len(made))], "id")+"/cancel", nil)
	}},
	{"sync a connection", func(a *attempt, c *apptest.Caller, random *rand.Rand) apptest.Response {
		var mine []string
		for _, found := range a.as(a.rt, a.org.ownerKey).Get("/api/v1/repohost/connections").Want(http.StatusOK).List("connections") {
			if found["entry_id"] == a.things["entry"] {
				mine = append(mine, apptest.Text(found, "id"))
			}
		}
		if len(mine) == 0 {
			return apptest.Response{}
		}
		return c.Post("/api/v1/repohost/connections/"+mine[random.IntN(len(mine))]+"/sync", nil)
	}},
}

func (a *attempt) versions() []apptest.Object {
	a.rt.Helper()
	return a.as(a.rt, a.org.ownerKey).Get(a.filled("/api/v1/registry/<entry>/versions")).Want(http.StatusOK).List("versions")
}

func (a *attempt) gates() []apptest.Object {
	a.rt.Helper()
	return a.as(a.rt, a.org.ownerKey).Get(a.filled("/api/v1/gates?entry_id=<entry>")).Want(http.StatusOK).List("gates")
}

// settle waits until the entry's gates are decided.
func (a *attempt) settle() {
	a.rt.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) { // of a busy machine
		open := slices.ContainsFunc(a.gates(), func(g apptest.Object) bool { return g["status"] == "queued" || g["status"] == "running" })
		if !open {
			return
		}
		if time.Now().After(deadline) {
			a.rt.Fatalf("the gates are not decided: %v", a.gates())
		}
	}
}

// wantHeld checks that every published version has passed its rule.
func (a *attempt) wantHeld() {
	a.rt.Helper()
	for _, v := range a.versions() {
		version := apptest.Text(v, "version")
		if version == "1.0.0" || v["state"] != "published" && v["is_current"] != true {
			continue
		}
		if a.rule.Approval {
			a.rt.Fatalf("version %s was published without the approval of an owner: %v", version, v)
		}
		text := a.as(a.rt, a.org.ownerKey).Get(a.filled("/api/v1/registry/<entry>/versions/") + version + "/files/SKILL.md").Want(http.StatusOK).Body
		if strings.Contains(string(text), unfit) {
			a.rt.Fatalf("version %s was published, which fails its suite: %v\n%v", version, v, a.gates())
		}
	}
}

// permissions is who may do what: the actors, the people, the keys, the team, and the
// entry's owners and policy.
func (a *attempt) permissions() map[string]any {
	a.rt.Helper()
	all := map[string]any{}
	for actor, key := range a.org.keys {
		all[actor] = a.as(a.rt, key).Get("/api/v1/me").Want(http.StatusOK).Object()["permissions"]
	}
	owner := a.as(a.rt, a.org.ownerKey)
	for _, path := range []string{"/registry/<entry>/owners", "/registry/<entry>/gate-policy", "/settings/gate-policy", "/teams/<team>"} {
		all[path] = owner.Get(a.filled("/api/v1" + path)).Want(http.StatusOK).Object()
	}
	for _, m := range owner.Get("/api/v1/members").Want(http.StatusOK).List("members") {
		all["role of "+fmt.Sprint(m["user_id"])] = m["role"]
	}
	keys := 0
	for _, k := range owner.Get("/api/v1/keys").Want(http.StatusOK).List("keys") {
		if k["revoked_at"] == nil {
			keys++
		}
	}
	all["keys"] = keys
	return all
}
