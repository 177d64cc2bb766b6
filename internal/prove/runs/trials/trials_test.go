package trials_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// TestMain lets the program of the tests be the stand-in of an agent.
func TestMain(m *testing.M) {
	agentstest.Main()
	os.Exit(m.Run())
}

type object = apptest.Object

// Each answer of the scripted model costs 0.0048 dollars.
var tokens = modeltest.Tokens{Input: 1000, Output: 60, CacheRead: 3000}

// replies use the skill if it is there, write a file and fail at a command. The
// model tells a key that it found.
func replies(first string) []modeltest.Reply {
	call := func(tool string, input modeltest.Object) modeltest.Reply {
		return modeltest.Reply{Usage: tokens, Text: "I go on.", Calls: []modeltest.Call{{Tool: tool, Input: input}}}
	}
	all := []modeltest.Reply{
		call("Bash", modeltest.Object{"command": "echo three >answer.txt; echo api_key=abcdef123456; mkdir sub; printf 'a\\0b' >sub/raw"}),
		{Usage: tokens, Text: "Done. The key is sk-model-key-0123456789."},
	}
	if strings.Contains(first, "skill") {
		all = append([]modeltest.Reply{call("Skill", modeltest.Object{"skill": "pdf"})}, all...)
	}
	return all
}

// A world has runs with agents, and the sessions of production.
type world struct {
	*runstest.World
	*runstest.Client
}

func newWorld(t *testing.T, db *store.DB) world {
	t.Helper()
	model := modeltest.Messages(t)
	model.ScriptBy(replies)
	agents := agentstest.Service(t, agentstest.StandIns(t), gateway.Model{
		Name: "sonnet", ID: "claude-sonnet-4-5", API: gateway.Anthropic, URL: model.URL, Key: "sk-model-key-0123456789",
	})
	w := runstest.New(t, db, func(w *runstest.World) { w.Runs.Agents = agents })
	count := &skills.Service{DB: db, Window: 30, Versions: registry.History{}}
	s := &sessions.Service{
		DB: db, Skills: count, Costs: &costs.Service{DB: db, Jobs: w.Queue}, Registry: w.Registry, Trials: w.Trials,
	}
	s.Mount(w.API)
	w.Work()
	return world{w, w.Org("acme")}
}

func prompt(text, expression string) object {
	return object{"case_kind": "boolean_assertion", "prompt": text, "assertion": expression}
}

// path is that of a trial of a run's case.
func path(run object, index, n int, query string) string {
	id := run["cases"].([]any)[index].(map[string]any)["id"].(string)
	return fmt.Sprintf("%s%s/trials/%d?case_id=%s%s", runstest.RunsPath, run["id"], n, url.QueryEscape(id), query)
}

// timeline returns the events of a session as lines.
func timeline(t *testing.T, session object) (lines []string) {
	t.Helper()
	for _, e := range apptest.List(t, session, "events") {
		line := fmt.Sprint(e["kind"], " ", e["name"])
		for _, field := range []string{"ok", "tokens", "cost_usd"} {
			if e[field] != nil {
				line += fmt.Sprintf(" %s=%v", field, e[field])
			}
		}
		if e["text"] != nil {
			line += fmt.Sprintf(" %q", e["text"])
		}
		lines = append(lines, strings.ReplaceAll(line, "  ", " "))
	}
	return lines
}

// TestTrial opens a trial of an agent in both arms: by its key, and as a session.
func TestTrial(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		suite := w.Create(apptest.With(runstest.Deterministic(
			prompt("Use the skill.", `files["answer.txt"] == "three\n"`)), object{"supports_no_skill": true}))
		run := w.Finish(suite, object{"agent": object{"name": "claude-code"}, "baseline": "no_skill"})
		got := w.Get(path(run, 0, 1, "")).Want(http.StatusOK).Field("trial")
		want := apptest.Plain(t, object{
			"run_id": run["id"], "case_kind": "boolean_assertion", "n": 1, "variant": "skill", "verdict": "pass", "asked": "Use the skill.",
			"activated": true, "turns": 3, "tool_calls": 2, "cost_usd": 0.0144, "error": nil, "files_truncated": false,
		})
		if diff := cmp.Diff(want, apptest.Pick(got, want)); diff != "" {
			t.Errorf("trial (-want +got):\n%s", diff)
		}
		session := got["session"].(map[string]any)
		lines := []string{
			`prompt "Use the skill."`,
			`response sonnet tokens=4060 cost_usd=0.0048 "I go on."`,
			`tool Skill ok=true "{\"skill\":\"pdf\"}\n\n---\nname: pdf\ndescription: Extracts tables from PDF files.\n---\nUse version two."`,
			`activation pdf ok=true`,
			`response sonnet tokens=4060 cost_usd=0.0048 "I go on."`,
			`tool Bash ok=true "{\"command\":\"echo three \\u003eanswer.txt; echo api_key=[secret]; mkdir sub; printf 'a\\\\0b' \\u003esub/raw\"}\n\napi_key=[secret]"`,
			`response sonnet tokens=4060 cost_usd=0.0048 "Done. The key is [secret]."`,
		}
		if diff := cmp.Diff(lines, timeline(t, session)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		want = apptest.Plain(t, object{
			"session_id": got["session_id"], "agent": "claude-code", "turns": 1, "tool_calls": 2, "tool_errors": 0, "grade": nil,
			"cost_usd": 0.0144, "has_content": true, "truncated": false, "grades": []any{},
			"skills": []any{object{"name": "pdf", "activated": true, "offered": true, "version": "2.0.0"}},
		})
		if diff := cmp.Diff(want, apptest.Pick(session, want)); diff != "" {
			t.Errorf("session (-want +got):\n%s", diff)
		}
		var files []string
		for _, f := range apptest.List(t, got, "files") {
			files = append(files, fmt.Sprint(f["change"], " ", f["path"], " ", f["size"], " ", f["text"]))
		}
		if diff := cmp.Diff([]string{"added answer.txt 6 three\n", "added sub/raw 3 <nil>"}, files); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}

		id := got["session_id"].(string)
		opened := w.Get("/v1/sessions/" + id).Want(http.StatusOK).Field("session")
		if diff := cmp.Diff(session, opened); diff != "" {
			t.Errorf("the trial as a session (-trial +session):\n%s", diff)
		}
		bare := w.Get(path(run, 0, 1, "&variant=no_skill")).Want(http.StatusOK).Field("trial")
		if s := bare["session"].(map[string]any); bare["session_id"] == id || len(s["skills"].([]any)) != 0 || bare["activated"] != false {
			t.Errorf("the trial without the skill: %v", bare)
		}
		testPages(t, w, path(run, 0, 1, ""), "/v1/sessions/"+id)
		testOthers(t, w, run, id)
	})
}

// testPages reads the events two by two, on both roads.
func testPages(t *testing.T, w world, paths ...string) {
	t.Helper()
	for _, p := range paths {
		separator := "?"
		if strings.Contains(p, "?") {
			separator = "&"
		}
		var kinds []string
		for cursor := ""; ; {
			answer := w.Get(p + separator + "limit=2&cursor=" + cursor).Want(http.StatusOK)
			session := answer.Object()
			if trial, ok := session["trial"].(map[string]any); ok {
				session = trial
			}
			for _, e := range apptest.List(t, session["session"].(map[string]any), "events") {
				kinds = append(kinds, e["kind"].(string))
			}
			next, more := answer.Object()["next_cursor"].(string)
			if !more {
				break
			}
			cursor = next
		}
		if got := strings.Join(kinds, " "); got != "prompt response tool activation response tool response" {
			t.Errorf("%s: pages have %s", p, got)
		}
		w.Get(p + separator + "cursor=x").Want(http.StatusBadRequest)
	}
}

// testOthers asks for what does not exist, or not for the caller.
func testOthers(t *testing.T, w world, run object, id string) {
	t.Helper()
	other := w.Org("other")
	for _, p := range []string{path(run, 0, 1, ""), "/v1/sessions/" + id} {
		other.Get(p).Want(http.StatusNotFound)
	}
	for _, p := range []string{path(run, 0, 2, ""), path(run, 0, 1, "&variant=previous"), path(run, 0, 1, "x")} {
		w.Get(p).Want(http.StatusNotFound)
	}
	for _, p := range []string{path(run, 0, 31, ""), path(run, 0, 1, "&variant=other"), runstest.RunsPath + run["id"].(string) + "/trials/1"} {
		w.Get(p).Want(http.StatusBadRequest)
	}
	viewer := w.Member(w.Client.Org, access.Viewer)
	viewer.Get(path(run, 0, 1, "")).Want(http.StatusOK) // as it may read the run's outputs
}

// TestWithoutAgent opens trials that no agent worked on, with what they have.
func TestWithoutAgent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		run := w.Finish(w.Create(runstest.Deterministic(
			runstest.Exact("given", "given"),
			object{"case_kind": "exact_match", "command": []string{"echo", "hello"}, "expected": "hello\n"},
		)))
		for i, want := range [][]string{{`response "given"`}, {`prompt "echo hello"`, `tool echo ok=true "hello\n"`}} {
			got := w.Get(path(run, i, 1, "")).Want(http.StatusOK).Field("trial")
			if diff := cmp.Diff(want, timeline(t, got["session"].(map[string]any))); diff != "" || got["session_id"] != nil {
				t.Errorf("case %d: session %v, events (-want +got):\n%s", i, got["session_id"], diff)
			}
		}
		run = w.Finish(w.Create(runstest.Judged(runstest.Trigger("extract the tables of this pdf"))))
		got := w.Get(path(run, 0, 1, "")).Want(http.StatusOK).Field("trial")
		if lines := timeline(t, got["session"].(map[string]any)); lines[0] != `prompt "extract the tables of this pdf"` {
			t.Errorf("events %q", lines)
		}
	})
}

// TestRecount: a run with agents changes nothing of production: no row of sessions,
// skills, costs, grades and telemetry, and no list that is made of them.
func TestRecount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		suite := w.Create(runstest.Deterministic(prompt("Use the skill.", `activated == true`)))
		w.Entry()
		before := production(t, w)
		run := w.Finish(suite, object{"agent": object{"name": "claude-code"}, "trials": 2})
		if run["pass_rate"] != 1.0 {
			t.Fatalf("pass rate %v", run["pass_rate"])
		}
		if diff := cmp.Diff(before, production(t, w)); diff != "" {
			t.Errorf("rows (-before +after):\n%s", diff)
		}
		if all := w.Get("/v1/sessions").Want(http.StatusOK).Object()["sessions"].([]any); len(all) != 0 {
			t.Errorf("%d sessions are listed", len(all))
		}
	})
}

// production counts the rows of all tables but those of runs, jobs and the audit log.
func production(t *testing.T, w world) map[string]int {
	t.Helper()
	tables := `SELECT name FROM sqlite_master WHERE type = 'table'`
	if w.DB.Dialect().Name() == "postgres" {
		tables = `SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN (SELECT relname FROM pg_class WHERE relispartition)`
	}
	rows, err := w.DB.Query(t.Context(), tables)
	names, err := store.All(rows, err, store.Value[string])
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, name := range names {
		if !strings.HasPrefix(name, "eval_") && !strings.HasPrefix(name, "job") &&
			!strings.HasPrefix(name, "audit_") && !strings.HasPrefix(name, "sqlite_") {
			counts[name] = w.Count(name)
		}
	}
	if len(counts) < 30 {
		t.Fatalf("only %d tables", len(counts))
	}
	return counts
}

// TestSweep deletes recordings with their suite, and those without a trial.
func TestSweep(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		suite := w.Create(runstest.Deterministic(prompt("Use the skill.", `activated == true`)))
		w.Finish(suite, object{"agent": object{"name": "claude-code"}})
		if err := w.Blobs.Put(t.Context(), "trials/o/r/orphan.json.gz", strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
		sweep := func(want int) {
			t.Helper()
			if err := w.Trials.Recordings.Sweep(t.Context(), -1); err != nil {
				t.Fatal(err)
			}
			if got := blobs(t, w); got != want {
				t.Errorf("%d recordings are left, want %d", got, want)
			}
		}
		sweep(1)
		w.Do("DELETE", runstest.SuitesPath+"/"+suite["id"].(string), nil).Want(http.StatusNoContent)
		if n := w.Count("eval_trial_recordings"); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		sweep(0)
	})
}

func blobs(t *testing.T, w world) (n int) {
	t.Helper()
	for _, err := range w.Blobs.List(t.Context(), "trials/") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
