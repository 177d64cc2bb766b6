package runs_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// importRun imports the result of a run as one of a suite.
func importRun(c *runstest.Client, suite object, file []byte) apptest.Response {
	return c.Upload(suitesPath+"/"+suite["id"].(string)+"/runs/import", apptest.Part{Name: "file", File: "aggregate-result.json", Content: file})
}

func aggregate(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile("imported/testdata/aggregate-result.json")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestImportRun(t *testing.T) {
	t.Parallel()
	file := aggregate(t)
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c, other := w.Org("acme"), w.Org("other")
		suite := c.Create(judged(trigger("a")))
		answer := importRun(c, suite, file).Want(http.StatusCreated)
		run := answer.Field("run")
		want := apptest.Plain(t, object{
			"status": "succeeded", "trials": 3, "baseline": "no_skill", "judge": nil, "cost": nil, "pass_rate": 0.5, "error": nil,
			"progress": object{"done": 5, "total": 5}, "totals": object{"cases": 2, "passed": 1, "failed": 1, "errors": 0, "skipped": 0},
			"trial_errors": 1, "subject": object{"name": "greeter", "content_hash": "", "label": "1.2.0"},
			"agent":      object{"name": "claude-code", "model": "sonnet"},
			"started_at": "2026-11-02T10:00:00.000Z", "finished_at": "2026-11-02T10:01:35.000Z",
			"baseline_result": object{"pass_rate": 0, "delta": 1, "normalized_gain": 1},
		}).(object)
		got := object{}
		for name := range want {
			got[name] = run[name]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("run (-want +got):\n%s", diff)
		}
		origin := run["imported"].(object)
		if origin["tool"] != "claude plugin eval" || origin["version"] != "2.1.325" || origin["cases_passed"] != 0.0 || origin["cost_usd"] != 0.4213 {
			t.Errorf("imported %v", origin)
		}
		if diff := cmp.Diff([]any{"pass", "fail"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
		got = trialOf(t, run, 0, "skill", 1)
		if got["cost_usd"] != 0.05 || got["turns"] != 2.0 || got["activated"] != nil || got["output_tail"] != "Hello Alex!" {
			t.Errorf("trial %v", got)
		}
		if got = trialOf(t, run, 0, "skill", 3); got["verdict"] != "error" || got["score"] != nil ||
			got["error"] != "agent_failed: exit 1: API Error: 529 overloaded" {
			t.Errorf("trial %v", got)
		}

		// The same file again is the same run, in another suite another one.
		again := importRun(c, suite, append([]byte("\n "), file...)).Want(http.StatusOK).Field("run")
		if again["id"] != run["id"] {
			t.Errorf("imported twice: %v and %v", run["id"], again["id"])
		}
		second := c.Create(judged(trigger("b")))
		if run := importRun(c, second, file).Want(http.StatusCreated).Field("run"); run["id"] == again["id"] {
			t.Error("two suites share a run")
		}
		listed := c.Get(suitesPath + "/" + suite["id"].(string) + "/runs").Want(http.StatusOK).List("runs")
		if len(listed) != 1 || listed[0]["imported"].(object)["digest"] != origin["digest"] {
			t.Errorf("runs %v", listed)
		}

		// It is over: nothing cancels or continues it, and its events are at their end.
		c.Post(runsPath+run["id"].(string)+"/cancel", nil).Want(http.StatusConflict)
		events := c.Get(runsPath + run["id"].(string) + "/events").Want(http.StatusOK)
		if strings.Count(string(events.Body), "event: ") != 1 {
			t.Errorf("events %s", events.Body)
		}

		// Another organisation sees neither the suite nor the run.
		importRun(other, suite, file).Want(http.StatusNotFound)
		other.Get(runsPath + run["id"].(string)).Want(http.StatusNotFound)
		c.Do(http.MethodDelete, suitesPath+"/"+suite["id"].(string), nil).Want(http.StatusNoContent)
		c.Get(runsPath + run["id"].(string)).Want(http.StatusNotFound)
	})
}

// TestImportRunStatus: a run that was not finished there is none that succeeded.
func TestImportRunStatus(t *testing.T) {
	t.Parallel()
	c := runstest.New(t, storetest.Open(t, "sqlite")).Org("acme")
	suite := c.Create(judged(trigger("a")))
	for reason, want := range map[string]string{"cost_ceiling": "budget_spent", "interrupted": "cancelled", "auth_failed": "failed", "": "cancelled"} {
		file := strings.Replace(string(aggregate(t)), `"partial": false`, fmt.Sprintf(`"partial": true, "partialReason": %q`, reason), 1)
		run := importRun(c, suite, []byte(file)).Want(http.StatusCreated).Field("run")
		if run["status"] != want || run["imported"].(object)["partial_reason"] == "" {
			t.Errorf("%s: %v", reason, run["status"])
		}
	}
}

func TestImportRunRefused(t *testing.T) {
	t.Parallel()
	c := runstest.New(t, storetest.Open(t, "sqlite")).Org("acme")
	suite := c.Create(judged(trigger("a")))
	for name, file := range map[string]string{
		"suite": `[{"query":"a","should_trigger":true}]`, "empty": ``, "no trials": `{"schemaVersion":1,"claudeVersion":"2","cases":[]}`,
	} {
		problem := importRun(c, suite, []byte(file)).Want(http.StatusBadRequest)
		if !strings.Contains(string(problem.Body), `"path":["file"]`) {
			t.Errorf("%s: %s", name, problem.Body)
		}
	}
	large := strings.Replace(string(aggregate(t)), "Say hello", strings.Repeat("Say hello", 500_000), 1)
	importRun(c, suite, []byte(large)).Want(http.StatusRequestEntityTooLarge)
	c.Upload(suitesPath+"/"+suite["id"].(string)+"/runs/import", apptest.Part{Name: "name", Content: []byte("x")}).Want(http.StatusBadRequest)
	// It is no suite either.
	c.Import("aggregate-result.json", aggregate(t)).Want(http.StatusBadRequest)

	// Nothing that the file says breaks a page or a database.
	hostile := strings.NewReplacer(`"hello"`, `"<script>\u0000"`, `"file"`, `"<script>\u0000"`, "greeter", `\u202e\u0000`, "Hello Alex!", `\u0000\ud800`).
		Replace(string(aggregate(t)))
	run := importRun(c, suite, []byte(hostile)).Want(http.StatusCreated).Field("run")
	if cases := apptest.List(t, run, "cases"); cases[0]["id"] == cases[1]["id"] {
		t.Errorf("ids %v and %v", cases[0]["id"], cases[1]["id"])
	}
}
