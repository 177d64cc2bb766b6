package apptest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Filler fills organisations through the API, as clients do.
type Filler struct {
	Client *Client
	Routes []httpapi.Route
	// Repos are the service's bare repositories.
	Repos *hosttest.Repos
	// Secret signs what the code host sends, which is the Provider.
	Secret   string
	Provider host.Provider
}

// An Org is an organisation to be filled.
type Org struct {
	tb     testing.TB
	filler *Filler
	key    string
	// Mark stands in every text and name that the organisation gives.
	Mark string
	// Things are what it has.
	Things Things
}

// Fill gives the organisation of an owner's key, which is on a plan that
// allows all, one thing of every kind. What jobs make of it is awaited.
func (f *Filler) Fill(tb testing.TB, key, mark string, installation int) *Org {
	tb.Helper()
	o := &Org{tb: tb, filler: f, key: key, Mark: mark, Things: Things{
		"text": mark + "-text", "archive": Archive(tb, mark), "account": mark, "installation": fmt.Sprint(installation), "repository": mark + "/skills",
		"skill_name": mark + "-skill",
	}}
	o.Things["user"] = o.read("GET", "/api/v1/me", "", "user.id")
	o.addEntry()
	o.pushSessions()
	o.addSources()
	o.addSuite()
	for _, kind := range []string{"candidate", "approvable", "gate", "withdrawn", "undoable"} {
		o.Things[kind] = o.Make(kind)
	}
	o.addAlerts()
	o.addIncident()
	o.connect()
	o.contribute()
	o.Things["service_account"] = o.Make("service_account")
	o.Things["key"], o.Things["catalog_token"] = o.Make("key"), o.Make("catalog_token")
	o.Things["trusted_publisher"] = o.Make("trusted_publisher")
	o.Things["event_webhook"] = o.Make("event_webhook")
	o.Things["event_delivery"] = o.good("POST /api/v1/event-webhooks/{}/test", "delivery.id")
	o.Things["member"], o.Things["invitation"] = o.Make("member"), o.Make("invitation")
	o.Things["team"] = o.Make("team")
	o.Things["set"] = o.Make("set")
	o.Things["scim_token"] = o.Make("scim_token")
	o.addProvider()
	o.Things["device"] = o.read("POST", "/api/v1/device-code", `{"client_id":"`+mark+`"}`, "device_code")
	o.good("POST /api/v1/organization/export", "export.id")
	o.awaitJobs()
	return o
}

// ask sends a good request and returns what came back.
func (o *Org) ask(method, path, body string) Answer {
	o.tb.Helper()
	r := Request{Method: method, Path: path, Body: []byte(body), Header: http.Header{"Content-Type": {"application/json"}}}
	return o.send(r)
}

// send sends a good request, and once more when a limit that others have used
// up lets it.
func (o *Org) send(r Request) Answer {
	o.tb.Helper()
	a, err := o.filler.Client.Do(o.tb.Context(), r, Bearer(o.key))
	if wait, unsaid := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && a.Status == http.StatusTooManyRequests && unsaid == nil && wait <= 60 {
		time.Sleep(time.Duration(wait) * time.Second)
		a, err = o.filler.Client.Do(o.tb.Context(), r, Bearer(o.key))
	}
	if err != nil {
		o.tb.Fatal(err)
	}
	if a.Status >= http.StatusBadRequest {
		o.tb.Fatalf("%s %s: %d %s", r.Method, r.Path, a.Status, a.Body)
	}
	return a
}

// read sends a good request and returns a value of what came back.
func (o *Org) read(method, path, body, at string) string {
	o.tb.Helper()
	value, err := o.ask(method, path, body).At(at)
	if err != nil {
		o.tb.Fatalf("%s %s: %v", method, path, err)
	}
	return value
}

// good sends the good request of a route and returns a value of its answer.
func (o *Org) good(name, at string) string {
	o.tb.Helper()
	for _, route := range o.filler.Routes {
		if RouteName(route.Method, route.Path) != name {
			continue
		}
		value, err := o.send(Rows()[name].Request(o.tb, route, o.Things)).At(at)
		if err != nil {
			o.tb.Fatalf("%s: %v", name, err)
		}
		return value
	}
	o.tb.Fatalf("no route %s", name)
	return ""
}

// Make makes one more thing of a kind that is used up.
func (o *Org) Make(kind string) string {
	o.tb.Helper()
	switch kind {
	case "key":
		return o.good("POST /api/v1/keys", "key.id")
	case "catalog_token":
		return o.good("POST /api/v1/catalog-tokens", "catalog_token.id")
	case "scim_token":
		return o.good("POST /api/v1/scim-tokens", "scim_token.id")
	case "trusted_publisher":
		return o.good("POST /api/v1/trusted-publishers", "trusted_publisher.id")
	case "event_webhook":
		return o.good("POST /api/v1/event-webhooks", "id")
	case "team":
		return o.good("POST /api/v1/teams", "team.id")
	case "set":
		return o.good("POST /api/v1/sets", "set.id")
	case "service_account":
		return o.good("POST /api/v1/service-accounts", "service_account.id")
	case "invitation":
		return o.good("POST /api/v1/invitations", "invitation.id")
	case "member":
		token := o.good("POST /api/v1/invitations", "token")
		return o.read("POST", "/api/v1/invitations/accept", `{"token":"`+token+`","email":"`+uuid.NewString()+`@example.org"}`, "member.user_id")
	case "alert":
		return o.good("POST /api/v1/alerts", "id")
	case "source":
		return o.good("POST /api/v1/cloud-sources", "id")
	case "review":
		id := uuid.NewString()
		o.ask("POST", "/api/v1/cloud-sources/"+o.Things["source"]+"/eval-suggestions/review",
			o.Things.fill(`{"suggestion_id":"`+id+`","review_status":"rejected",`+decided+`}`))
		return id
	case "suite":
		return o.good("POST /api/v1/eval-suites", "suite.id")
	case "run":
		return o.good("POST /api/v1/eval-suites/{}/runs", "run.id")
	case "comparison":
		return o.good("POST /api/v1/comparisons", "comparison.id")
	case "schedule":
		return o.good("POST /api/v1/eval-schedules", "schedule.id")
	case "improve_run":
		return o.good("POST /api/v1/improve-runs", "improve_run.id")
	case "installation":
		return strconv.Itoa(1_000_000 + rand.IntN(1_000_000_000)) // to be bound
	case "connection":
		return o.good("POST /api/v1/repohost/connections", "id")
	case "entry":
		fresh := o.renamed()
		fresh.addEntry()
		return fresh.Things["entry"]
	case "candidate":
		fresh := o.renamed()
		fresh.hold()
		return fresh.Things["entry"]
	case "approvable":
		fresh := o.renamed()
		fresh.candidate(`{"policy":{"mode":"off","approvals":1}}`)
		return fresh.Things["entry"]
	case "gate":
		return o.renamed().hold()
	case "withdrawn":
		fresh := o.renamed()
		fresh.addEntry()
		fresh.ask("POST", "/api/v1/registry/"+fresh.Things["entry"]+"/versions/1.0.0/withdraw", `{"reason":"old"}`)
		return fresh.Things["entry"]
	case "undoable":
		fresh := o.renamed()
		fresh.addEntry()
		fresh.ask("POST", "/api/v1/registry/"+fresh.Things["entry"]+"/rollback", `{"target_version":"1.0.0"}`)
		return fresh.Things["entry"]
	}
	o.tb.Fatalf("say in Make how a new %s is made", kind)
	return ""
}

// renamed returns the organisation with another name for its skill.
func (o *Org) renamed() *Org {
	name := uuid.NewString()
	things := o.Things.With("skill_name", name)
	things["entry_name"] = name
	return &Org{tb: o.tb, filler: o.filler, key: o.key, Things: things}
}

// hold publishes a skill with a second version that its gate holds, and returns
// the id of the gate.
func (o *Org) hold() string {
	o.tb.Helper()
	o.candidate(`{"policy":{"mode":"enforce","floors":{"skill_md_tokens":1}}}`)
	return o.read("GET", "/api/v1/gates?entry_id="+o.Things["entry"], "", "gates.0.id")
}

// candidate publishes a skill with a second version that its policy holds.
func (o *Org) candidate(policy string) {
	o.tb.Helper()
	o.Things["entry"] = o.publish("/api/v1/registry", "1.0.0", o.Things["archive"])
	entry := "/api/v1/registry/" + o.Things["entry"]
	o.ask("PUT", entry+"/gate-policy", policy)
	o.publish(entry+"/versions", "1.2.0", Archive(o.tb, "held "+o.Things["text"]))
}

// addEntry publishes a skill in two versions, and installs it.
func (o *Org) addEntry() {
	o.tb.Helper()
	o.Things["entry_name"] = o.Things["skill_name"]
	o.Things["entry"] = o.publish("/api/v1/registry", "1.0.0", o.Things["archive"])
	o.publish("/api/v1/registry/"+o.Things["entry"]+"/versions", "1.1.0", Archive(o.tb, "newer "+o.Things["text"]))
	o.good("POST /api/v1/registry/{}/install", "installation.id")
}

func (o *Org) publish(path, version, archive string) string {
	o.tb.Helper()
	metadata := o.Things.fill(`{"name":"<entry_name>","description":"<text>","change_summary":"<text>","version":"` + version + `"}`)
	row := Row{Form: [][3]string{{"metadata", "", metadata}, {"archive", "skill.tar.gz", archive}}}
	a := o.send(row.Request(o.tb, httpapi.Route{Method: "POST", Path: path}, o.Things))
	id, err := a.At("entry.id")
	if err != nil {
		o.tb.Fatal(err)
	}
	return id
}

// Archive is a skill, packed; more are names and contents of further files.
func Archive(tb testing.TB, mark string, more ...string) string {
	tb.Helper()
	text := "---\nname: skill\ndescription: Reads tables out of " + mark + ". Use it when somebody asks for numbers.\n---\n# " + mark + "\n"
	return Pack(tb, append([]string{"SKILL.md", text}, more...)...)
}

// Pack is an archive of files, each by its name and its content.
func Pack(tb testing.TB, files ...string) string {
	tb.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[i+1]))}); err != nil {
			tb.Fatal(err)
		}
		_, _ = w.Write([]byte(files[i+1])) // into memory, as what follows
	}
	_ = w.Close()
	_ = compressed.Close()
	return packed.String()
}

// pushSessions sends sessions in which the skill was missed or failed.
func (o *Org) pushSessions() {
	o.tb.Helper()
	type object = map[string]any
	records := map[string][]object{}
	at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for n := range 6 {
		id := fmt.Sprintf("%s-session-%d", o.Mark, n)
		prompt := fmt.Sprintf("%s, please, number %d", o.Mark, n)
		for kind, record := range map[string]object{
			"sessions":          {"session_id": id, "platform": "claude_code", "started_at": at},
			"prompts":           {"prompt_id": id, "session_id": id, "occurred_at": at, "prompt_text": prompt, "prompt_kind": "user"},
			"skill_invocations": {"skill_invocation_id": id, "session_id": id, "occurred_at": at, "matched_prompt_id": id, "skill_name": o.Things["skill_name"], "triggered": n > 2},
			"grading_results":   {"grading_id": id, "session_id": id, "skill_name": o.Things["skill_name"], "graded_at": at, "passed_count": 0, "failed_count": 5, "total_count": 5, "pass_rate": 0},
		} {
			records[kind] = append(records[kind], record)
		}
	}
	o.Things["push"], o.Things["agent_session"] = uuid.NewString(), o.Mark+"-session-0"
	body, err := json.Marshal(object{"schema_version": "2.0", "push_id": o.Things["push"], "canonical": records})
	if err != nil {
		o.tb.Fatal(err)
	}
	if a := o.ask("POST", "/api/v1/push", string(body)); !strings.Contains(a.Body, `"rejected":[]`) {
		o.tb.Fatal(a.Body)
	}
	o.Things["skill"] = o.read("GET", "/v1/skills?q="+o.Mark, "", "skills.0.skill_id")
}

func (o *Org) addSources() {
	o.tb.Helper()
	row := Row{Form: [][3]string{{"label", "", "<text>"}, {"skill_id", "", "<skill>"}, {"file", "skill.tar.gz", "<archive>"}}}
	a := o.send(row.Request(o.tb, httpapi.Route{Method: "POST", Path: "/api/v1/cloud-sources/upload"}, o.Things))
	for kind, at := range map[string]string{"source": "id", "snapshot": "snapshot.id"} {
		value, err := a.At(at)
		if err != nil {
			o.tb.Fatal(err)
		}
		o.Things[kind] = value
	}
	o.Things["review"] = o.Make("review")
}

func (o *Org) addSuite() {
	o.tb.Helper()
	o.Things["suite"] = o.Make("suite")
	o.Things["run"] = o.Make("run")
	o.Things["queries"] = o.read("POST", "/api/v1/eval-suites", o.queries(), "suite.id")
	o.Things["improve_run"] = o.Make("improve_run")
	o.Things["comparison"] = o.Make("comparison")
	o.Things["schedule"] = o.Make("schedule")
}

// queries is a suite from which a description can be improved.
func (o *Org) queries() string {
	var cases []string
	for _, word := range []string{"ship", "deliver", "release", "publish", "roll out"} {
		cases = append(cases, `{"query":"`+word+` `+o.Mark+`","expectation":"should_trigger"}`)
	}
	return `{"name":"` + o.Mark + `","source_kind":"manual","verifier_kind":"llm_judge","cases_json":[` + strings.Join(cases, ",") + `]}`
}

// addAlerts makes a rule that fires at once, and one that tells a web server,
// to which nothing gets through.
func (o *Org) addAlerts() {
	o.tb.Helper()
	o.Things["alert"] = o.read("POST", "/api/v1/alerts",
		o.Things.fill(`{"type":"pass_rate_below","threshold":0.9,"channel":"email","config":{"email":"`+o.Mark+`@example.org"},"skill_id":"<skill>"}`), "id")
	o.Things["hook_alert"] = o.read("POST", "/api/v1/alerts",
		`{"type":"no_data","channel":"webhook","config":{"webhook_url":"http://127.0.0.1:1/`+o.Mark+`"}}`, "id")
	o.good("POST /api/v1/alerts/{}/test", "delivery.id")
}

// addIncident publishes a good version and a bad one, which an alert rolls back.
func (o *Org) addIncident() {
	o.tb.Helper()
	fresh := o.renamed()
	fresh.Things["entry"] = fresh.publish("/api/v1/registry", "1.0.0", fresh.Things["archive"])
	fresh.grade(1)
	fresh.publish("/api/v1/registry/"+fresh.Things["entry"]+"/versions", "1.1.0", Archive(o.tb, "bad "+o.Mark))
	fresh.good("POST /api/v1/registry/{}/install", "installation.id")
	fresh.grade(0)
	skill := o.read("GET", "/v1/skills/"+fresh.Things["skill_name"], "", "skill.skill_id")
	o.ask("POST", "/api/v1/alerts", `{"type":"pass_rate_below","threshold":0.9,"action":"rollback","channel":"webhook",`+
		`"config":{"webhook_url":"http://127.0.0.1:1/`+o.Mark+`"},"skill_id":"`+skill+`"}`)
}

// grade pushes graded sessions of the organisation's skill, enough of them for an alert to be sure.
func (o *Org) grade(passRate int) {
	o.tb.Helper()
	var all []string
	at := time.Now().UTC().Format(time.RFC3339Nano)
	for range 12 {
		id := uuid.NewString()
		all = append(all, fmt.Sprintf(`{"grading_id":%q,"session_id":%q,"skill_name":%q,"graded_at":%q,"pass_rate":%d}`,
			id, id, o.Things["skill_name"], at, passRate))
	}
	o.ask("POST", "/api/v1/push", `{"schema_version":"2.0","push_id":"`+uuid.NewString()+`","canonical":{"grading_results":[`+strings.Join(all, ",")+`]}}`)
}

// addProvider lets an identity provider push a person and a group.
func (o *Org) addProvider() {
	o.tb.Helper()
	token, owner := o.good("POST /api/v1/scim-tokens", "token"), o.key
	o.key = token
	o.Things["scim_user"] = o.read("POST", "/scim/v2/Users", `{"userName":"`+o.Mark+`@scim.example","displayName":"`+o.Mark+`"}`, "id")
	o.Things["scim_group"] = o.read("POST", "/scim/v2/Groups", `{"displayName":"`+o.Mark+`","members":[{"value":"`+o.Things["scim_user"]+`"}]}`, "id")
	o.key = owner
}

// connect links a repository, and delivers a push of it.
func (o *Org) connect() {
	o.tb.Helper()
	sha := o.filler.Repos.Create(o.Things["repository"]).Push(o.Mark, map[string]string{"SKILL.md": hosttest.Skill("skill", o.Mark)})
	o.good("POST /api/v1/repohost/installations", "id")
	o.Things["connection"] = o.read("POST", "/api/v1/repohost/connections",
		o.Things.fill(`{"entry_id":"<entry>","installation_id":<installation>,"repo_full_name":"<repository>"}`), "id")
	o.Things["repo_source"] = o.read("POST", "/api/v1/cloud-sources",
		o.Things.fill(`{"type":"repohost","label":"<text>","installation_id":<installation>,"repo_full_name":"<repository>"}`), "id")
	o.deliver("push", `{"ref":"refs/heads/main","after":"`+sha+`","repository":{"full_name":"<repository>"}}`)
	// Bare repositories have no pull requests: it is kept as a closed one.
	o.good("POST /api/v1/repohost/settings", "write_back_mode")
	o.good("PATCH /api/v1/repohost/connections/{}", "id")
	o.deliver("pull_request", `{"action":"opened","number":1,"repository":{"full_name":"<repository>"}}`)
}

// deliver sends a webhook of the code host.
func (o *Org) deliver(event, body string) {
	o.tb.Helper()
	body = o.Things.fill(body)
	header, body := hosttest.Deliver(o.tb, o.filler.Provider, o.filler.Secret, uuid.NewString(), event, body)
	o.send(Request{Method: "POST", Path: "/api/v1/repohost/webhook", Body: []byte(body), Header: header})
}

// contribute sends so many signals that a proposal comes of them, and a bundle.
func (o *Org) contribute() {
	o.tb.Helper()
	var all []string
	for n := range 12 {
		all = append(all, o.Things.fill(fmt.Sprintf(
			`{"skill_name":"<skill_name>","signal_type":"missed_trigger","confidence":0.5,"source_key":"<new>","user_cohort":"cohort-%d"}`, n%4)))
	}
	relay, owner := o.read("POST", "/api/v1/keys", `{"name":"relay","relay":true}`, "api_key"), o.key
	o.key = relay // which may name contributors
	o.ask("POST", "/api/v1/signals", `{"signals":[`+strings.Join(all, ",")+`]}`)
	o.key = owner
	o.good("POST /api/v1/community/bundles", "submission_id")
}

// awaitJobs waits for what jobs make.
func (o *Org) awaitJobs() {
	o.tb.Helper()
	o.Things["suggestion"] = o.await("/api/v1/cloud-sources/"+o.Things["source"]+"/eval-suggestions", "evalSuggestions.0.id")
	o.Things["proposal"] = o.await("/api/v1/proposals", "proposals.0.id")
	o.Things["pull_request"] = o.await("/api/v1/repohost/pull-requests", "pull_requests.0.id")
	o.Things["delivery"] = o.await("/api/v1/repohost/deliveries", "deliveries.0.id")
	o.await("/api/v1/alert-events", "events.0.id")
	o.Things["incident"] = o.await("/api/v1/incidents", "incidents.0.id")
	o.await("/api/v1/eval-runs/"+o.Things["run"], "run.finished_at")
	o.Things["case"] = o.await("/api/v1/eval-runs/"+o.Things["run"], "run.cases.0.id")
	o.await("/api/v1/improve-runs/"+o.Things["improve_run"], "improve_run.finished_at")
	o.await("/api/v1/comparisons/"+o.Things["comparison"], "comparison.ended_at")
	o.await("/api/v1/organization/export", "export.finished_at")
}

// jobTimeout is how long a job may take to be done.
const jobTimeout = 2 * time.Minute

// await asks until there is a value.
func (o *Org) await(path, at string) string {
	o.tb.Helper()
	for deadline := time.Now().Add(jobTimeout); ; time.Sleep(20 * time.Millisecond) {
		value, err := o.ask("GET", path, "").At(at)
		if err == nil {
			return value
		}
		if time.Now().After(deadline) {
			o.tb.Fatal(err)
		}
	}
}
