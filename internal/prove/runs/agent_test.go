package runs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// Each answer of the scripted model costs 0.0048 dollars: 3 for a million tokens
// in, 15 for a million out, 0.30 for a million from the cache.
var answerTokens = modeltest.Tokens{Input: 1000, Output: 60, CacheRead: 3000}

const answerUSD = 0.0048

func shell(command string) modeltest.Reply {
	return modeltest.Reply{Usage: answerTokens, Calls: []modeltest.Call{{Tool: "Bash", Input: modeltest.Object{"command": command}}}}
}

func useSkill(name string) modeltest.Reply {
	return modeltest.Reply{Usage: answerTokens, Calls: []modeltest.Call{{Tool: "Skill", Input: modeltest.Object{"skill": name}}}}
}

func say(text string) modeltest.Reply { return modeltest.Reply{Usage: answerTokens, Text: text} }

// withAgents lets runs use stand-ins of agents and scripted models: one that
// answers by the instruction, and one that cannot be reached.
func withAgents(t *testing.T, scripts map[string][]modeltest.Reply) func(*runstest.World) {
	t.Helper()
	model := modeltest.Messages(t)
	model.ScriptBy(func(first string) []modeltest.Reply {
		for word, replies := range scripts {
			if strings.Contains(first, word) {
				return replies
			}
		}
		t.Errorf("no script for %s", first)
		return nil
	})
	s := agentstest.Service(t, agentstest.StandIns(t),
		gateway.Model{Name: "sonnet", ID: "claude-sonnet-4-5", API: gateway.Anthropic, URL: model.URL, Key: "sk-model-key-0123456789"},
		gateway.Model{Name: "away", ID: "claude-sonnet-4-5", API: gateway.Anthropic, URL: "http://127.0.0.1:9"},
		gateway.Model{Name: "unpriced", API: gateway.Anthropic, URL: model.URL},
		gateway.Model{Name: "gpt", ID: "gpt-5.1-codex", API: gateway.Responses, URL: "http://127.0.0.1:9/v1"})
	s.Commands = map[string]agents.Command{
		"missing": {Argv: []string{"/nowhere/agent"}},
		"silent":  {Argv: []string{"/bin/true"}},
	}
	return func(w *runstest.World) { w.Runs.Agents = s }
}

var claude = object{"agent": object{"name": "claude-code"}}

func assertion(prompt, expression string) object {
	return object{"case_kind": "boolean_assertion", "prompt": prompt, "assertion": expression}
}

// trialOf returns a trial of a case.
func trialOf(t *testing.T, run object, index int, variant string, n int) object {
	t.Helper()
	for _, trial := range apptest.List(t, apptest.List(t, run, "cases")[index], "trials") {
		if trial["variant"] == variant && trial["n"] == float64(n) {
			return trial
		}
	}
	t.Fatalf("case %d has no trial %d of %s", index, n, variant)
	return nil
}

// TestAgent runs prompts with an agent in all arms: the skill is installed as the
// agent installs it, beside its competitor, and what the agent did decides.
func TestAgent(t *testing.T) {
	t.Parallel()
	scripts := map[string][]modeltest.Reply{
		"list":  {useSkill("pdf"), shell("ls ~/.claude/skills | sort >skills.txt; grep -rhc 'version two' ~/.claude/skills >two.txt"), say("Two.")},
		"plain": {say("42")},
		"count": {shell("ls ~/.claude/skills | wc -l >count.txt"), say("Counted.")},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db, withAgents(t, scripts))
		c := w.Org("acme")
		w.Work()
		body := deterministic(
			assertion("list", `files["skills.txt"].contains("pdf\n") && files["skills.txt"].contains("weather\n") && files["two.txt"].contains("1") && activated == true
				&& tools == ["Skill", "Bash"] && turns == 3 && tokens == 12180 && cost_usd > 0.0143 && cost_usd < 0.0145 && exit_code == 0
				&& output == "Two."`),
			object{"case_kind": "exact_match", "prompt": "plain", "expected": "42"},
			assertion("count", `files["count.txt"] == "6\n" && activated == false`),
			exact("given", "given"),
		)
		suite := c.Create(with(body, object{"supports_no_skill": true}))
		run := c.Finish(suite, claude, object{"baseline": "previous", "trials": 2})
		if diff := cmp.Diff([]any{"pass", "pass", "pass", "pass"}, verdicts(t, run)); diff != "" || run["status"] != "succeeded" {
			t.Fatalf("%s: verdicts (-want +got):\n%s\n%v", run["status"], diff, apptest.List(t, run, "cases")[0])
		}
		if diff := cmp.Diff(apptest.Plain(t, object{"name": "claude-code", "model": "sonnet", "max_turns": 50, "timeout_s": 900}),
			run["agent"]); diff != "" {
			t.Errorf("agent (-want +got):\n%s", diff)
		}
		got := trialOf(t, run, 0, "skill", 2)
		want := apptest.Plain(t, object{"activated": true, "turns": 3, "tool_calls": 2, "cost_usd": 3 * answerUSD, "error": nil})
		if diff := cmp.Diff(want, apptest.Pick(got, want)); diff != "" {
			t.Errorf("trial (-want +got):\n%s", diff)
		}
		if previous := trialOf(t, run, 0, "previous", 1); previous["verdict"] != "fail" || previous["activated"] != true {
			t.Errorf("with the previous version: %v", previous)
		}
		// Of 2 trials in 2 arms: 3 + 1 + 2 answers.
		if cost := run["cost"].(object); cost["usd"] != 24*answerUSD || cost["requests"] != 24.0 {
			t.Errorf("cost %v, want %v for 24 requests", cost, 24*answerUSD)
		}
		if diff := cmp.Diff(apptest.Plain(t, object{"skill": 12 * answerUSD, "previous": 12 * answerUSD}), run["cost_usd_by_variant"]); diff != "" {
			t.Errorf("cost by variant (-want +got):\n%s", diff)
		}
		events := c.Get(runsPath + run["id"].(string) + "/events").Want(http.StatusOK)
		for _, want := range []string{"event: agent\n", `"tools":["Skill"]`, `"text":"Counted."`} {
			if !strings.Contains(string(events.Body), want) {
				t.Errorf("the events have no %s", want)
			}
		}

		// The second run is estimated by the first; without the skill its trace is an error.
		if e := c.Get(suitesPath + "/" + suite["id"].(string) + "/estimate?agent=claude-code&baseline=no_skill").Want(200).Object(); e["trials"] != 6.0 ||
			e["estimate_usd"] != 12*answerUSD {
			t.Errorf("estimate %v, want %v for 6 trials", e, 12*answerUSD)
		}
		run = c.Finish(suite, claude, object{"baseline": "no_skill"})
		if run["estimate_usd"] != 12*answerUSD {
			t.Errorf("estimate %v, want %v", run["estimate_usd"], 12*answerUSD)
		}
		for i, want := range []string{"error", "pass", "fail", "skipped"} {
			if got := trialOf(t, run, i, "no_skill", 1); got["verdict"] != want {
				t.Errorf("case %d without the skill: %v, want %s", i, got, want)
			}
		}
		if message := fmt.Sprint(trialOf(t, run, 0, "no_skill", 1)["error"]); !strings.HasPrefix(message, "contaminated: ") {
			t.Errorf("error %q", message)
		}
	})
}

// TestAgentSecrets: a server that repeats its key gives it neither to the agent nor to
// those who read the trial, whatever the agent does with what it was told.
func TestAgentSecrets(t *testing.T) {
	t.Parallel()
	const key = "sk-model-key-0123456789"
	db := storetest.Open(t, "sqlite")
	w := runstest.New(t, db, withAgents(t, map[string][]modeltest.Reply{
		"leak": {
			shell("echo " + key + " | tee leak.txt; echo " + key + " >&2; touch " + key + "; echo " + key + " | base64 | rev >hidden.txt"),
			{Usage: answerTokens, Calls: []modeltest.Call{{Tool: "of " + key, Input: modeltest.Object{"text": key}}}},
			say(strings.Repeat("x", 190) + key + " is your key"),
		},
	}))
	c := w.Org("acme")
	w.Work()
	run := c.Finish(c.Create(deterministic(
		assertion("leak", `files["leak.txt"] == "[secret]\n" && files["hidden.txt"].size() < 20`),
		object{"case_kind": "exact_match", "prompt": "leak", "expected": "other"})), claude)
	if diff := cmp.Diff([]any{"pass", "fail"}, verdicts(t, run)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	all := fmt.Sprint(run)
	for i := range 2 {
		ref, err := w.Runs.Recordings.Find(t.Context(), c.Org.ID, trialOf(t, run, i, "skill", 1)["session_id"].(string))
		if err != nil {
			t.Fatal(err)
		}
		did, err := w.Runs.Recordings.Get(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintf("%+v", did)
		for _, f := range did.Files {
			all += f.Path + f.Diff
		}
	}
	all += string(c.Get(runsPath + run["id"].(string) + "/events").Want(http.StatusOK).Body)
	if !strings.Contains(all, "leak.txt") || !strings.Contains(all, "[secret]") {
		t.Error("the trial has not what the agent did")
	}
	for _, part := range []string{key, key[:12], key[12:]} {
		if at := strings.Index(all, part); at >= 0 {
			t.Errorf("%q is in ...%s", part, all[max(0, at-100):at+len(part)])
		}
	}
}

// TestAgentTriggers asks a real agent whether it activates the skill.
func TestAgentTriggers(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "sqlite")
	w := runstest.New(t, db, withAgents(t, map[string][]modeltest.Reply{
		"the pdf": {useSkill("pdf"), say("Read.")},
		"rain":    {useSkill("weather"), say("Sunny.")},
	}))
	c := w.Org("acme")
	w.Work()
	run := c.Finish(c.Create(judged(trigger("the pdf"), avoid("rain"), trigger("rain"))), claude)
	if diff := cmp.Diff([]any{"pass", "pass", "fail"}, verdicts(t, run)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if run["judge"] != nil {
		t.Errorf("judge %v: no model judges", run["judge"])
	}
	silent := c.Finish(c.Create(judged(trigger("the pdf"))), object{"agent": object{"name": "silent"}})
	if got := trialOf(t, silent, 0, "skill", 1); got["verdict"] != "error" || got["activated"] != nil ||
		!strings.HasPrefix(fmt.Sprint(got["error"]), "unsupported: ") {
		t.Errorf("an agent that does not tell: %v", got)
	}
}

// TestAgentProblems: each way in which an agent does not come to an end is an error
// of its trial with a code, and the run goes on.
func TestAgentProblems(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "sqlite")
	w := runstest.New(t, db, withAgents(t, map[string][]modeltest.Reply{
		"hello": {say("hello")},
		"hang":  {shell("sleep 3600"), say("never")},
		"turns": {shell("true"), shell("true"), say("hello")},
		"crash": {shell("kill -9 $PPID; sleep 5"), say("never")},
	}))
	c := w.Org("acme")
	w.Work()
	named := func(agent object, prompt string) object {
		return object{"case_kind": "exact_match", "prompt": prompt, "expected": "hello", "agent": agent}
	}
	own := func(fields object) object { return with(object{"name": "claude-code"}, fields) }
	run := c.Finish(c.Create(deterministic(
		named(object{"name": "clippy"}, "hello"),
		named(object{"name": "missing"}, "hello"),
		named(own(object{"model": "gone"}), "hello"),
		named(own(object{"model": "away"}), "hello"),
		named(own(object{"timeout_s": 1}), "hang"),
		named(own(nil), "crash"),
		named(own(object{"max_turns": 2}), "turns"),
		named(own(nil), "hello"),
	)))
	for i, want := range []string{
		`agent_unavailable: Agent "clippy" is not known`, "agent_unavailable: Agent missing is not available",
		"agent_unavailable: agent.model must be one of", "model_unreachable: the model cannot be reached",
		"agent_timeout: the agent did not end in time", "agent_failed: ",
	} {
		got := trialOf(t, run, i, "skill", 1)
		if message, _ := got["error"].(string); got["verdict"] != "error" || !strings.HasPrefix(message, want) {
			t.Errorf("case %d: %v, want %q", i, got, want)
		}
	}
	if got := trialOf(t, run, 6, "skill", 1); got["verdict"] != "fail" || apptest.Text(got, "evidence", "agent", "ended") != "out_of_turns" {
		t.Errorf("out of turns: %v", got)
	}
	if got := trialOf(t, run, 7, "skill", 1); got["verdict"] != "pass" {
		t.Errorf("the last case: %v", got)
	}
	if run["status"] != "succeeded" {
		t.Errorf("status %v", run["status"])
	}
}

func TestAgentInput(t *testing.T) {
	t.Parallel()
	w := runstest.New(t, storetest.Open(t, "sqlite"), withAgents(t, nil))
	c := w.Org("acme")
	suite := c.Create(deterministic(assertion("hello", "true")))
	for _, b := range []struct {
		fields        object
		path, message string
	}{
		{object{"agent": object{"name": "clippy"}}, "agent.name", "there is no agent"},
		{object{"agent": object{}}, "agent.name", ""},
		{object{"agent": object{"name": "claude-code", "model": "gpt"}}, "agent.model", "can ask: sonnet, away"},
		{object{"agent": object{"name": "claude-code", "max_turns": 1001}}, "agent.max_turns", ""},
		{object{"agent": object{"name": "claude-code", "timeout_s": 7201}}, "agent.timeout_s", ""},
		{object{"max_cost_usd": 0}, "max_cost_usd", ""},
		{object{"agent": object{"name": "claude-code", "model": "unpriced"}, "max_cost_usd": 1}, "max_cost_usd", "price of unpriced is unknown"},
	} {
		body := with(object{"subject": object{"entry_id": c.Entry()}}, b.fields)
		c.Post(suitesPath+"/"+suite["id"].(string)+"/runs", body).Want(http.StatusBadRequest).WantIssueWith(b.path, b.message)
	}
}

// TestAgentBudget keeps the most that a run may cost: what is decided stands, and
// the run ends as budget_spent.
func TestAgentBudget(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db, withAgents(t, map[string][]modeltest.Reply{
			"one":  {shell("true"), say("hello")},
			"many": {shell("true"), shell("true"), shell("true"), shell("true"), say("hello")},
		}))
		c := w.Org("acme")
		w.Work()
		var cases []object
		for range 30 {
			cases = append(cases, object{"case_kind": "exact_match", "prompt": "one", "expected": "hello"})
		}
		suite := c.Create(deterministic(cases...))
		run := c.Finish(suite, claude, object{"max_cost_usd": 8 * answerUSD})
		usd := run["cost"].(object)["usd"].(float64)
		if run["status"] != "budget_spent" || usd < 8*answerUSD || usd > 9*answerUSD+1e-9 {
			t.Errorf("%v with a cost of %v, want about %v", run["status"], usd, 8*answerUSD)
		}
		totals := run["totals"].(object)
		if passed := totals["passed"].(float64); passed < 1 || passed > 4 || totals["skipped"].(float64) < 20 {
			t.Errorf("totals %v", totals)
		}
		if run["max_cost_usd"] != 8*answerUSD || run["pass_rate"] != 1.0 {
			t.Errorf("%v", run)
		}
		// One trial that costs too much.
		one := c.Create(deterministic(object{"case_kind": "exact_match", "prompt": "many", "expected": "hello"}))
		run = c.Finish(one, claude, object{"max_cost_usd": 2 * answerUSD})
		got := trialOf(t, run, 0, "skill", 1)
		if run["status"] != "budget_spent" || got["verdict"] != "error" || !strings.HasPrefix(fmt.Sprint(got["error"]), "budget_spent: ") ||
			got["cost_usd"] != 2*answerUSD {
			t.Errorf("%v: %v", run["status"], got)
		}
		// Enough.
		if run = c.Finish(one, claude, object{"max_cost_usd": 1}); run["status"] != "succeeded" {
			t.Errorf("%v", run)
		}
	})
}

// TestAgentPackage lets an agent work on task packages: it sees neither the
// verifier nor the solution, and the verifier sees what it left.
func TestAgentPackage(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "sqlite")
	w := runstest.New(t, db, withAgents(t, map[string][]modeltest.Reply{
		"solve": {
			useSkill("pdf"),
			shell("cat /tests/* /task/tests/* /task/solution/* /solution/* ../tests/* 2>/dev/null >seen.txt; echo done >/app/out.txt; pwd"),
			say("Done."),
		},
		"idle": {say("No.")},
	}))
	c := w.Org("acme")
	w.Work()
	archive := runstest.Pack(
		runstest.File{Name: "task.toml", Text: "version = \"1.0\"\n", Mode: 0o644},
		runstest.File{Name: "app/input.txt", Text: "in\n", Mode: 0o644},
		runstest.File{Name: "solution/solve.sh", Text: "#!/bin/bash\necho secret\n", Mode: 0o755},
		runstest.File{Name: "tests/test.sh", Text: "#!/bin/bash\nset -e\n[ ! -s /app/seen.txt ]\n[ \"$(cat /app/out.txt)\" = done ]\n[ -e /tests/test.sh ]\n", Mode: 0o755},
	)
	key := fmt.Sprintf("evals/%s/%x.tar.gz", c.Org.ID, sha256.Sum256(archive))
	if err := w.Blobs.Put(t.Context(), key, bytes.NewReader(archive), int64(len(archive))); err != nil {
		t.Fatal(err)
	}
	pkg := func(instruction string) object {
		return object{"case_kind": "task_package", "environment_ref": "blob://" + key, "instruction": instruction, "oracle_ref": "solution/solve.sh"}
	}
	run := c.Finish(c.Create(deterministic(pkg("solve"), pkg("idle"))), claude)
	if diff := cmp.Diff([]any{"pass", "fail"}, verdicts(t, run)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s\n%v", diff, apptest.List(t, run, "cases"))
	}
	got := trialOf(t, run, 0, "skill", 1)
	want := apptest.Plain(t, object{"activated": true, "turns": 3, "tool_calls": 2, "cost_usd": 3 * answerUSD})
	if diff := cmp.Diff(want, apptest.Pick(got, want)); diff != "" {
		t.Errorf("trial (-want +got):\n%s", diff)
	}
	// The verifier's files are neither the agent's nor shown to have been there.
	id := apptest.List(t, run, "cases")[0]["id"].(string)
	opened := c.Get(runsPath + run["id"].(string) + "/trials/1?case_id=" + id).Want(http.StatusOK).Field("trial")
	var files []string
	for _, f := range apptest.List(t, opened, "files") {
		files = append(files, fmt.Sprint(f["change"], " ", f["path"]))
	}
	if diff := cmp.Diff([]string{"added app/out.txt", "added seen.txt"}, files); diff != "" || opened["asked"] != "solve" {
		t.Errorf("asked %v, files (-want +got):\n%s", opened["asked"], diff)
	}
}

// TestAgentRecordedOnce lets two workers make the same trials: what is kept of each is
// of the one that counts. A trial counts also if nothing can be kept of it.
func TestAgentRecordedOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		agents := withAgents(t, map[string][]modeltest.Reply{"work": {shell("sleep 0.3"), say("hello")}})
		w := runstest.New(t, db, agents)
		c := w.Org("acme")
		hello := object{"case_kind": "exact_match", "prompt": "work", "expected": "hello"}
		suite := c.Create(deterministic(hello, hello))
		run := c.Start(suite, claude)
		id := run["id"].(string)
		ended := make(chan error)
		for range 2 {
			go func() { ended <- w.Another(jobs.Options{}, agents).Runs.Execute(t.Context(), c.Org.ID, id) }()
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		if n := w.Count("eval_trial_recordings WHERE run_id = $1", id); n != 2 {
			t.Errorf("%d recordings, want 2", n)
		}
		for i := range 2 {
			session := trialOf(t, c.Run(id), i, "skill", 1)["session_id"].(string)
			if n := w.Count("eval_trial_recordings WHERE id = $1", session); n != 1 {
				t.Errorf("the trial of case %d has %d recordings", i, n)
			}
		}

		full := func(w *runstest.World) {
			agents(w)
			w.Runs.Recordings = &recording.Store{DB: w.DB, Blobs: fullBucket{}}
		}
		run = c.Start(suite, claude)
		if err := w.Another(jobs.Options{}, full).Runs.Execute(t.Context(), c.Org.ID, run["id"].(string)); err != nil {
			t.Fatal(err)
		}
		if got := trialOf(t, c.Run(run["id"]), 0, "skill", 1); got["verdict"] != "pass" || got["session_id"] != nil {
			t.Errorf("with a full bucket the trial is %v, session %v", got["verdict"], got["session_id"])
		}
	})
}

// A fullBucket stores nothing.
type fullBucket struct{ blob.Bucket }

func (fullBucket) Put(context.Context, string, io.Reader, int64) error {
	return errors.New("no space left")
}

// TestAgentTwoWorkers kills a worker in the middle of agents' trials: the next one
// makes the rest, and each trial counts once.
func TestAgentTwoWorkers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		agents := withAgents(t, map[string][]modeltest.Reply{"work": {shell("sleep 0.3"), say("hello")}})
		w := runstest.New(t, db, agents)
		c := w.Org("acme")
		var cases []object
		for range 12 {
			cases = append(cases, object{"case_kind": "exact_match", "prompt": "work", "expected": "hello"})
		}
		run := c.Start(c.Create(deterministic(cases...)), claude, object{"max_cost_usd": 100})
		done := func() float64 { return c.Run(run["id"])["progress"].(object)["done"].(float64) }
		for range 2 {
			before := done()
			ctx, kill := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- w.Another(jobs.Options{}, agents).Runs.Execute(ctx, c.Org.ID, run["id"].(string)) }()
			apptest.Eventually(t, "some trials", func() bool { return done() > before })
			kill()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if err := w.Another(jobs.Options{}, agents).Runs.Execute(t.Context(), c.Org.ID, run["id"].(string)); err != nil {
			t.Fatal(err)
		}
		run = c.Run(run["id"])
		if cost := run["cost"].(object); run["status"] != "succeeded" || cost["requests"] != 24.0 || cost["usd"] != 24*answerUSD {
			t.Errorf("%v, cost %v, want 24 requests", run["status"], cost)
		}
		if n := w.Count("eval_run_trials WHERE run_id = $1", run["id"]); n != 12 {
			t.Errorf("%d trials, want 12", n)
		}
		if n := w.Count("eval_agent_costs WHERE run_id = $1 AND trials = 12", run["id"]); n != 1 {
			t.Errorf("the rollup does not have the 12 trials")
		}
	})
}
