package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

const (
	// A suite holds 500 cases, so that 10,000 in one run are 20 trials of each:
	// every one is checked and kept by itself.
	evalCases  = 500
	evalTrials = 20
	// wanted of cases a second, beside promptfoo.
	evalRatio     = 20
	promptfooName = "promptfoo"

	judgedCases   = 500
	judgeLatency  = 50 * time.Millisecond
	judgeRequests = 16
	// wanted of the time that the judge alone takes.
	judgedRatio = 1.3
)

// A check is one deterministic case, as both sides are given it.
type check struct {
	output string
	ours   map[string]any // a case without its output
	theirs map[string]any // an assertion
}

// checks are of the three kinds in turn, on outputs of a few dozen bytes.
func checks() []check {
	schema := map[string]any{"type": "object", "required": []string{"id", "name"}}
	all := make([]check, evalCases)
	for i := range all {
		c := check{output: fmt.Sprintf(`{"id": %d, "name": "row %d", "ok": true}`, i, i)}
		switch i % 3 {
		case 0:
			c.ours = map[string]any{"case_kind": "exact_match", "expected": c.output}
			c.theirs = map[string]any{"type": "equals", "value": c.output}
		case 1:
			c.ours = map[string]any{"case_kind": "json_schema", "schema": schema}
			c.theirs = map[string]any{"type": "is-json", "value": schema}
		case 2:
			c.ours = map[string]any{"case_kind": "boolean_assertion", "assertion": fmt.Sprintf(`json.id == %d && output.contains("row")`, i)}
			c.theirs = map[string]any{"type": "javascript", "value": fmt.Sprintf(`JSON.parse(output).id === %d && output.includes("row")`, i)}
		}
		c.ours["output"] = c.output
		all[i] = c
	}
	return all
}

// benchEvals measures how many deterministic cases a second a run decides and
// keeps, from the request that starts it to its end. The peer's figure is its
// own: without its start, and without keeping results.
func benchEvals(ctx context.Context, l *lab) ([]row, error) {
	ours, err := l.startEvaluator(ctx)
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	cases := make([]map[string]any, evalCases)
	for i, c := range checks() {
		cases[i] = c.ours
	}
	suite, err := ours.suite(ctx, "deterministic", cases)
	if err != nil {
		return nil, err
	}
	best := time.Hour
	for range l.rounds() {
		took, err := ours.run(ctx, suite, evalTrials, evalCases)
		if err != nil {
			return nil, err
		}
		best = min(best, took)
	}
	mine := evalCases * evalTrials / best.Seconds()
	peer, err := l.promptfoo(ctx)
	if err != nil {
		return nil, err
	}
	return []row{{
		Name: "eval: 500 cases x 20 trials, given output", Figure: mine, Unit: "cases/s", Beside: promptfooName, Other: peer, AtLeast: evalRatio,
	}}, nil
}

// benchJudged measures what a run adds to the time that its judge takes.
func benchJudged(ctx context.Context, l *lab) ([]row, error) {
	model, err := judgetest.Start(judgetest.Model{Route: func(string, []string) string { return "" }}.Respond)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	model.Latency = judgeLatency
	ours, err := l.startEvaluator(ctx, "--judge-api", judgetest.OpenAI, "--judge-url", model.URL(judgetest.OpenAI),
		"--judge-model", "scripted", "--judge-concurrency", fmt.Sprint(judgeRequests))
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	cases := make([]map[string]any, judgedCases)
	for i := range cases {
		cases[i] = map[string]any{"case_kind": "trigger_query", "query": fmt.Sprintf("question %d", i), "expectation": "should_not_trigger"}
	}
	suite, err := ours.suite(ctx, "llm_judge", cases)
	if err != nil {
		return nil, err
	}
	best := time.Hour
	for range l.rounds() {
		took, err := ours.run(ctx, suite, 1, judgedCases)
		if err != nil {
			return nil, err
		}
		best = min(best, took)
	}
	ideal := time.Duration((judgedCases+judgeRequests-1)/judgeRequests) * judgeLatency
	return []row{{
		Name: "eval-judged: 500 cases, 50 ms a verdict, 16 at once", Figure: millis(best), Unit: "ms",
		Beside: "the judge alone", Other: millis(ideal), AtMost: judgedRatio,
	}}, nil
}

// An evaluator is Whetstone with a skill to test.
type evaluator struct{ *registry }

func (l *lab) startEvaluator(ctx context.Context, flags ...string) (*evaluator, error) {
	data, err := l.folder("evals")
	if err != nil {
		return nil, err
	}
	s, err := l.serve(ctx, data, flags...)
	if err != nil {
		return nil, err
	}
	e := &evaluator{&registry{server: s}}
	if err := e.create(ctx, 0); err != nil {
		s.stop()
		return nil, err
	}
	return e, nil
}

// suite makes a suite and returns its id.
func (e *evaluator) suite(ctx context.Context, verifier string, cases []map[string]any) (string, error) {
	var made struct{ Suite struct{ ID string } }
	err := e.ask(ctx, "/api/v1/eval-suites", http.StatusCreated, map[string]any{
		"name": "bench", "source_kind": "manual", "verifier_kind": verifier, "cases_json": cases,
	}, &made)
	return made.Suite.ID, err
}

// ask posts JSON and reads the answer.
func (e *evaluator) ask(ctx context.Context, path string, status int, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := e.request(ctx, http.MethodPost, path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return call(req, status, answer)
}

// run runs a suite to its end, in which all cases must have passed, and
// returns how long that took.
func (e *evaluator) run(ctx context.Context, suite string, trials, wanted int) (time.Duration, error) {
	path := "/api/v1/eval-suites/" + suite + "/runs"
	start := time.Now()
	body := map[string]any{"subject": map[string]string{"entry_id": e.entries[0]}, "trials": trials}
	if err := e.ask(ctx, path, http.StatusAccepted, body, nil); err != nil {
		return 0, err
	}
	for {
		var list struct {
			Runs []struct {
				Status string
				Totals struct{ Passed int }
			}
		}
		if err := e.get(ctx, path+"?per_page=1", &list); err != nil {
			return 0, err
		}
		switch newest := list.Runs[0]; newest.Status {
		case "queued", "running":
			time.Sleep(2 * time.Millisecond)
		case "succeeded":
			if newest.Totals.Passed != wanted {
				return 0, fmt.Errorf("%d of %d cases passed", newest.Totals.Passed, wanted)
			}
			return time.Since(start), nil
		default:
			return 0, errors.New("the run has " + newest.Status)
		}
	}
}

// promptfoo runs the same checks as often in promptfoo, whose provider "echo"
// gives back the prompt, and returns how many it does in a second by its own
// clock.
func (l *lab) promptfoo(ctx context.Context) (float64, error) {
	home, err := l.installPromptfoo(ctx)
	if err != nil {
		return 0, err
	}
	dir, err := l.folder("promptfoo")
	if err != nil {
		return 0, err
	}
	tests := make([]map[string]any, evalCases)
	for i, c := range checks() {
		tests[i] = map[string]any{"vars": map[string]string{"body": c.output}, "assert": []any{c.theirs}}
	}
	config, err := json.Marshal(map[string]any{"prompts": []string{"{{body}}"}, "providers": []string{"echo"}, "tests": tests})
	if err != nil {
		return 0, err
	}
	in, out := filepath.Join(dir, "config.json"), filepath.Join(dir, "out.json")
	if err := os.WriteFile(in, config, 0o600); err != nil {
		return 0, err
	}
	trials := evalTrials
	if l.quick {
		trials = 2
	}
	cmd := exec.CommandContext(ctx, l.node(), filepath.Join(home, "dist", "src", "entrypoint.js"), "eval",
		"--config", in, "--output", out, "--repeat", fmt.Sprint(trials), "--no-cache", "--no-write", "--no-table", "--no-progress-bar", "--no-share")
	cmd.Dir = dir
	// It must send nothing to anybody.
	cmd.Env = environment("PROMPTFOO_CONFIG_DIR="+dir, "PROMPTFOO_DISABLE_TELEMETRY=1", "PROMPTFOO_DISABLE_UPDATE=1",
		"PROMPTFOO_DISABLE_REMOTE_GENERATION=1", "PROMPTFOO_DISABLE_SHARING=1", "NODE_ENV=production")
	if said, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("promptfoo: %w\n%s", err, said)
	}
	return promptfooRate(out, evalCases*trials)
}

// installPromptfoo installs promptfoo beside the other peers, unless it is
// there, and returns where. It is not in their lock file: without its optional
// parts, clients of models that are not asked here, it takes a sixth of the
// space, and npm cannot lock it without them.
func (l *lab) installPromptfoo(ctx context.Context) (string, error) {
	if err := l.installPeers(ctx); err != nil { // they bring the Node.js that it needs
		return "", err
	}
	prefix := filepath.Join(l.modules(), ".promptfoo")
	home := filepath.Join(prefix, "node_modules", "promptfoo")
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	fmt.Fprintln(os.Stderr, "bench: installing promptfoo with npm, once")
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", prefix, "--no-save", "--no-package-lock", "--ignore-scripts",
		"--omit=optional", "--loglevel=error", "promptfoo@0.123.1", "@libsql/linux-"+arch+"-gnu@0.5.29")
	cmd.Dir = l.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install promptfoo: %w\n%s", err, out)
	}
	return home, nil
}

// promptfooRate reads promptfoo's results, in which all cases must have passed.
func promptfooRate(path string, wanted int) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var out struct {
		Results struct {
			Stats struct {
				Successes  int     `json:"successes"`
				DurationMS float64 `json:"evaluationDurationMs"`
			} `json:"stats"`
		} `json:"results"`
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return 0, err
	}
	stats := out.Results.Stats
	if stats.Successes != wanted || stats.DurationMS <= 0 {
		return 0, fmt.Errorf("promptfoo passed %d of %d cases in %g ms", stats.Successes, wanted, stats.DurationMS)
	}
	return 1000 * float64(wanted) / stats.DurationMS, nil
}
