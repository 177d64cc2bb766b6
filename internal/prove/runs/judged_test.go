package runs_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// router chooses pdf for queries about PDFs, if it is in the catalogue.
func router(query string, catalogue []string) string {
	if strings.Contains(query, "pdf") && slices.Contains(catalogue, "pdf") {
		return "pdf"
	}
	if strings.Contains(query, "rain") {
		return "weather"
	}
	return ""
}

func TestTriggers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := judgetest.New(t, judgetest.Model{Route: router}.Respond)
		w := runstest.New(t, db, runstest.Scripted(server))
		w.Work()
		c := w.Org("acme")
		suite := c.Create(with(judged(trigger("read the pdf"), avoid("will it rain"), trigger("open the file")),
			object{"supports_no_skill": true}))
		run := c.Finish(suite, object{"baseline": "no_skill", "trials": 3})
		if diff := cmp.Diff([]any{"pass", "pass", "fail"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
		cases := apptest.List(t, run, "cases")
		for i, want := range []string{"fail", "pass", "fail"} {
			if got := cases[i]["baseline_verdict"]; got != want {
				t.Errorf("baseline of case %d is %v, want %s", i, got, want)
			}
			if n := len(apptest.List(t, cases[i], "trials")); n != 6 {
				t.Errorf("case %d has %d trials", i, n)
			}
		}
		if diff := cmp.Diff(apptest.Plain(t, object{
			"api": "openai", "model": "scripted",
			"prompt_version": run["judge"].(object)["prompt_version"],
		}), run["judge"]); diff != "" {
			t.Errorf("judge (-want +got):\n%s", diff)
		}
		rain := apptest.List(t, cases[1], "trials")[0]["evidence"].(object)
		if rain["chosen"] != "weather" || rain["summary"] != "the query triggers the skill weather: as scripted" {
			t.Errorf("evidence is %v", rain)
		}
		record := rain["judge"].(object)
		if record["model"] != "scripted" || record["seed"] != run["seed"] || record["prompt_version"] == "" || record["raw"] == "" {
			t.Errorf("record is %v", record)
		}
		want := apptest.Plain(t, object{"pass_rate": 1.0 / 3, "delta": 1.0 / 3, "normalized_gain": 0.5}).(object)
		got := run["baseline_result"].(object)
		for field, value := range want {
			if diff := got[field].(float64) - value.(float64); diff > 1e-9 || diff < -1e-9 {
				t.Errorf("baseline_result is %v, want %v", got, want)
			}
		}
		for _, r := range server.Requests() {
			if strings.Count(r.System, "<name>pdf</name>") > 1 || !strings.Contains(r.System, "<name>weather</name>") {
				t.Fatalf("catalogue: %s", r.System)
			}
		}
	})
}

// TestBuiltinJudge checks what works without a model, and that the run says so.
func TestBuiltinJudge(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		w.Work()
		c := w.Org("acme")
		run := c.Finish(c.Create(judged(trigger("extract the tables from this PDF"), avoid("what is the weather tomorrow"))))
		if diff := cmp.Diff([]any{"pass", "pass"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
		if api := run["judge"].(object)["api"]; api != "builtin" {
			t.Errorf("judge is %v", run["judge"])
		}
		evidence := apptest.List(t, apptest.List(t, run, "cases")[0], "trials")[0]["evidence"].(object)
		if api := evidence["judge"].(object)["api"]; api != "builtin" {
			t.Errorf("evidence is %v", evidence)
		}
		rubric := c.Create(judged(object{"case_kind": "llm_rubric", "output": "a", "rubric": "is good"}))
		run = c.Finish(rubric)
		wantErrors(t, run, "judge_unavailable")
	})
}

// wantErrors checks that a run succeeded without any verdict.
func wantErrors(t *testing.T, run object, code string) {
	t.Helper()
	totals := run["totals"].(object)
	if run["status"] != "succeeded" || totals["errors"] != totals["cases"] || run["pass_rate"] != nil || run["pass_k"] != nil ||
		run["pass_rate_interval"] != nil {
		t.Errorf("got %v", without(run, "cases"))
	}
	for _, c := range apptest.List(t, run, "cases") {
		for _, trial := range apptest.List(t, c, "trials") {
			text, _ := trial["error"].(string)
			if c["verdict"] != "error" || trial["verdict"] != "error" || trial["score"] != nil || !strings.HasPrefix(text, code+": ") {
				t.Errorf("got %v, want an error with the code %s", trial, code)
			}
		}
	}
}

func TestRubric(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := judgetest.New(t, judgetest.Model{
			Grade: func(criterion, material string) (string, bool) {
				switch {
				case criterion == "lies":
					return "words that nobody wrote", true
				case criterion == "orders" && material == "green orders":
					return "green", true
				case strings.Contains(material, criterion):
					return criterion, true
				}
				return "", false
			},
			Answer: func(prompt, skill string) string { return prompt + " " + skill },
		}.Respond)
		w := runstest.New(t, db, runstest.Scripted(server))
		w.Work()
		c := w.Org("acme")
		rubric := func(fields object) object { return with(object{"case_kind": "llm_rubric"}, fields) }
		suite := c.Create(with(judged(
			rubric(object{"output": "red and blue", "expectations": []string{"red", "blue"}}),
			rubric(object{"output": "red only", "expectations": []string{"red", "blue"}}),
			rubric(object{"output": "red only", "expectations": []string{"red", "blue"}, "threshold": 0.5}),
			rubric(object{"output": "green", "expectations": []string{"lies"}}),
			rubric(object{"prompt": "hello", "rubric": "- version two\n- hello"}),
			rubric(object{"output": "green orders", "expectations": []string{"orders"}}),
		), object{"supports_no_skill": true}))
		run := c.Finish(suite, object{"baseline": "previous", "trials": 2})
		if diff := cmp.Diff([]any{"pass", "fail", "pass", "fail", "pass", "fail"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
		cases := apptest.List(t, run, "cases")
		for i, want := range []any{1.0, 0.5, 0.5, 0.0} {
			if cases[i]["score"] != want || cases[i]["baseline_verdict"] != "skipped" {
				t.Errorf("case %d: got %v, %v", i, cases[i]["score"], cases[i]["baseline_verdict"])
			}
		}
		criteria := apptest.List(t, apptest.List(t, cases[3], "trials")[0]["evidence"].(object), "criteria")
		if criteria[0]["passed"] != false || criteria[0]["note"] == nil {
			t.Errorf("a made-up quotation gives %v", criteria)
		}
		criteria = apptest.List(t, apptest.List(t, cases[5], "trials")[0]["evidence"].(object), "criteria")
		if note, _ := criteria[0]["note"].(string); criteria[0]["passed"] != false ||
			!strings.HasPrefix(note, "read by itself") || criteria[0]["quote"] != "green" {
			t.Errorf("a quotation for something else gives %v", criteria)
		}
		run = c.Finish(c.Create(judged(rubric(object{"prompt": "hello", "expectations": []string{"version two", "hello"}}))),
			object{"baseline": "previous"})
		one := apptest.List(t, run, "cases")[0]
		if one["verdict"] != "pass" || one["baseline_verdict"] != "fail" {
			t.Errorf("got %v", one)
		}
		trials := apptest.List(t, one, "trials")
		if out := trials[0]["output_tail"].(string); !strings.HasPrefix(out, "hello ---\nname: pdf") ||
			trials[1]["variant"] != "previous" {
			t.Errorf("got %v", trials)
		}
	})
}

// TestPrompts checks the answer of a model deterministically.
func TestPrompts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := judgetest.New(t, judgetest.Model{Answer: func(prompt, skill string) string {
			if skill == "" {
				return "no skill"
			}
			return `{"said": "` + prompt + `"}`
		}}.Respond)
		w := runstest.New(t, db, runstest.Scripted(server))
		w.Work()
		c := w.Org("acme")
		suite := c.Create(with(deterministic(
			object{"case_kind": "exact_match", "prompt": "a", "expected": `{"said":"a"}`, "normalize": []string{"whitespace"}},
			object{"case_kind": "json_schema", "input": "b", "schema": object{"required": []string{"said"}}},
			object{"case_kind": "boolean_assertion", "query": "c", "assertion": `json.said == "c" && duration_ms >= 0`},
		), object{"supports_no_skill": true}))
		run := c.Finish(suite, object{"baseline": "no_skill"})
		if diff := cmp.Diff([]any{"fail", "pass", "pass"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
		for _, one := range apptest.List(t, run, "cases") {
			if one["baseline_verdict"] != "fail" {
				t.Errorf("got %v", one)
			}
		}
		run = c.Finish(c.Create(deterministic(exact("a", "a"), object{"prompt": "a", "expected": "a", "case_kind": "exact_match"})),
			object{"baseline": "no_skill"})
		if one := apptest.List(t, run, "cases")[0]; one["baseline_verdict"] != "skipped" {
			t.Errorf("a given output has the baseline %v", one)
		}
		// The judge's key decides nothing, and is not stored.
		run = c.Finish(c.Create(deterministic(
			object{"prompt": "sk-secret", "assertion": `json.said == "sk-secret"`, "case_kind": "boolean_assertion"},
			object{"prompt": "sk-secret", "expected": "other", "case_kind": "exact_match"})))
		if diff := cmp.Diff([]any{"pass", "fail"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
		for _, one := range apptest.List(t, run, "cases") {
			trial := apptest.List(t, one, "trials")[0]
			stored := fmt.Sprint(trial["output_tail"], trial["evidence"])
			if strings.Contains(stored, "sk-secret") || !strings.Contains(stored, "[secret]") {
				t.Errorf("stored is %s", stored)
			}
		}
	})
}

// TestTroubledJudge has a row for each way in which a judge gives no verdict.
// The databases have no part in it, and most of its time is spent waiting.
func TestTroubledJudge(t *testing.T) {
	t.Parallel()
	soon := http.Header{"Retry-After": {"0"}}
	for _, row := range []struct {
		name    string
		reply   judgetest.Reply
		timeout time.Duration
		code    string
	}{
		{"garbage", judgetest.Garbage(), time.Minute, "judge_unusable"},
		{"no verdict", judgetest.Text("I would rather not."), time.Minute, "judge_unusable"},
		{"rate limit", judgetest.Reply{Status: 429, Message: "slow down", Header: soon}, time.Minute, "judge_unavailable"},
		{"broken", judgetest.Reply{Status: 500, Message: "oops", Header: soon}, time.Minute, "judge_unavailable"},
		{"refused", judgetest.Fail(400, "no such model"), time.Minute, "judge_rejected"},
		{"never", judgetest.Hang(), 50 * time.Millisecond, "judge_timeout"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			server := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return row.reply })
			w := runstest.New(t, storetest.Open(t, "sqlite"), runstest.ScriptedWithin(server, row.timeout))
			w.Work()
			c := w.Org("acme")
			wantErrors(t, c.Finish(c.Create(judged(trigger("a"), avoid("b")))), row.code)
		})
	}
}

// TestRefusedKey fails the whole run at the first answer.
func TestRefusedKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := judgetest.New(t, nil)
		server.Key = "another"
		w := runstest.New(t, db, runstest.Scripted(server), func(w *runstest.World) { w.Runs.Concurrency = 1 })
		w.Work()
		c := w.Org("acme")
		run := c.Finish(c.Create(judged(trigger("a"), trigger("b"), trigger("c"))))
		problem, _ := run["error"].(string)
		if run["status"] != "failed" || !strings.HasPrefix(problem, "judge_rejected: ") || strings.Contains(problem, "sk-secret") {
			t.Errorf("got %v", without(run, "cases"))
		}
		if diff := cmp.Diff(apptest.Plain(t, object{"cases": 3, "passed": 0, "failed": 0, "errors": 0, "skipped": 3}),
			run["totals"]); diff != "" {
			t.Errorf("totals (-want +got):\n%s", diff)
		}
		if n := len(server.Requests()); n != 1 {
			t.Errorf("%d requests were made", n)
		}
	})
}

// TestFlakyJudge: the verdict of a case is that of its decided trials.
func TestFlakyJudge(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var once sync.Once
		model := judgetest.Model{Route: router}
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			reply := model.Respond(r)
			once.Do(func() { reply = judgetest.Fail(400, "hiccup") })
			return reply
		})
		w := runstest.New(t, db, runstest.Scripted(server))
		w.Work()
		c := w.Org("acme")
		run := c.Finish(c.Create(judged(trigger("the pdf"))), object{"trials": 4})
		one := apptest.List(t, run, "cases")[0]
		bad := 0
		for _, trial := range apptest.List(t, one, "trials") {
			if trial["verdict"] == "error" {
				bad++
			}
		}
		if one["verdict"] != "pass" || one["score"] != 1.0 || bad != 1 || run["pass_k"] != 1.0 {
			t.Errorf("%d errors in %v", bad, one)
		}
	})
}
