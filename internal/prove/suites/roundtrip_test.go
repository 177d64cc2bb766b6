package suites_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// anyCase draws a case of a kind, with whatever else its author may add.
func anyCase(r *rapid.T, kind string, i int) object {
	text := rapid.StringMatching(`[a-zé"<\\{ ]{1,12}`)
	o := object{"case_kind": kind}
	switch kind {
	case "trigger_query":
		o["query"], o["expectation"] = text.Draw(r, "query"), rapid.SampledFrom([]string{
			"should_trigger",
			"should_not_trigger",
		}).Draw(r, "expectation")
	case "llm_rubric":
		o["prompt"] = text.Draw(r, "prompt")
		o["expectations"] = rapid.SliceOfN(text, 0, 3).Draw(r, "expectations")
	case "exact_match":
		o["output"], o["expected"] = text.Draw(r, "output"), text.Draw(r, "expected")
	}
	if rapid.Bool().Draw(r, "named") {
		o["name"] = text.Draw(r, "name")
	}
	switch rapid.IntRange(0, 2).Draw(r, "id") {
	case 0:
		o["id"] = i
	case 1:
		o["id"] = fmt.Sprint("case ", i)
	}
	if rapid.Bool().Draw(r, "more") {
		o["own"] = object{"number": rapid.Float64Range(-1e9, 1e9).Draw(r, "number"), "list": []any{nil, true, text.Draw(r, "text")}}
	}
	return o
}

// TestRoundTrip imports what was exported, and finds the same cases.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	c := runstest.New(t, storetest.Open(t, "sqlite")).Org("acme")
	rapid.Check(t, func(r *rapid.T) {
		shape := rapid.SampledFrom([]struct{ format, kind, verifier string }{
			{"trigger", "trigger_query", "llm_judge"},
			{"evals.json", "llm_rubric", "llm_judge"},
			{"suite", "exact_match", "deterministic"},
			{"suite", "trigger_query", "llm_judge"},
			{"suite", "llm_rubric", "structured_rubric"},
		}).Draw(r, "shape")
		cases := make([]object, rapid.IntRange(1, 5).Draw(r, "cases"))
		for i := range cases {
			cases[i] = anyCase(r, shape.kind, i)
		}
		suite := c.Create(object{"name": "Round trip", "source_kind": "manual", "verifier_kind": shape.verifier, "cases_json": cases})
		path := suitesPath + "/" + suite["id"].(string)
		file := c.Get(path + "/export?format=" + shape.format).Want(http.StatusOK).Body
		again := c.Import("x.json", file).Want(http.StatusCreated).Field("suite")
		for _, field := range []string{"name", "cases_json", "verifier_kind", "runnable"} {
			if shape.format == "trigger" && field == "name" {
				continue // the format has no name
			}
			if diff := cmp.Diff(suite[field], again[field]); diff != "" {
				r.Fatalf("%s as %s (-exported +imported):\n%s\n%s", field, shape.format, diff, file)
			}
		}
	})
}

// TestExport checks the formats of other tools.
func TestExport(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		export := func(suite object, query string) apptest.Response {
			return c.Get(suitesPath + "/" + suite["id"].(string) + "/export" + query)
		}
		judgedSuite := c.Create(with(judged(object{"id": 1, "query": "a", "expectations": []string{"b"}}), object{"name": "pdf"}))
		export(judgedSuite, "?format=evals.json").Want(200).WantBody(object{
			"skill_name": "pdf", "evals": []object{{"id": 1, "prompt": "a", "expectations": []string{"b"}}},
		})
		a := export(judgedSuite, "").Want(200)
		if a.Object()["verifier_kind"] != "llm_judge" || a.Header.Get("Content-Disposition") == "" {
			t.Errorf("the format of a suite is not the default: %s", a.Body)
		}
		export(judgedSuite, "?format=trigger").WantErrorWith(http.StatusConflict, "case 1")
		export(c.Create(judged(with(trigger("a"), object{"id": "x"}), object{"query": "b"})),
			"?format=trigger").WantErrorWith(http.StatusConflict, "case 2")
		export(c.Create(judged(object{"output": "a", "rubric": "b"})), "?format=evals.json").WantErrorWith(http.StatusConflict, "prompt")
		export(judgedSuite, "?format=yaml").WantIssueWith("format", "")
	})
}
