package improve_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

func parse(t *testing.T, text string) suites.Case {
	t.Helper()
	cases, err := suites.ParseCases(json.RawMessage("["+text+"]"), suites.LLMJudge)
	if err != nil {
		t.Fatal(err)
	}
	return cases[0]
}

// TestDigest: a case is the same whatever it is called, and another one with other
// words.
func TestDigest(t *testing.T) {
	t.Parallel()
	const asks = `"case_kind":"llm_rubric","prompt":"Bill  Ada","rubric":"is polite"`
	one, renamed := parse(t, `{"id":"a",`+asks+`}`), parse(t, `{"id":"b","name":"B","weight":2,"tags":["x"],`+asks+`}`)
	other := parse(t, `{"id":"a","case_kind":"llm_rubric","prompt":"bill ada","rubric":"is short"}`)
	if improve.CaseDigest(one) != improve.CaseDigest(renamed) || improve.CaseDigest(one) == improve.CaseDigest(other) {
		t.Error("the digest is not that of the content")
	}
	if improve.CaseAsked(one) != improve.CaseAsked(other) {
		t.Errorf("%q and %q ask the same", improve.CaseAsked(one), improve.CaseAsked(other))
	}
	if got := improve.CaseTexts(one); !slices.Equal(got, []string{"is polite", "Bill  Ada"}) {
		t.Errorf("the texts are %q", got)
	}
	if got := improve.CaseExpectation(one); got != "is polite" {
		t.Errorf("it expects %q", got)
	}
	model := judge.Description{EvalJudge: api.EvalJudge{API: judge.OpenAI}}
	if got := improve.CaseCalls(one, model); got != 3 {
		t.Errorf("a prompt with a rubric takes %d calls", got)
	}
	query := parse(t, `{"case_kind":"trigger_query","query":"bill","expectation":"should_trigger"}`)
	if model, builtin := improve.CaseCalls(query, model), improve.CaseCalls(query, judge.Description{EvalJudge: api.EvalJudge{API: judge.Builtin}}); model != 1 || builtin != 0 {
		t.Errorf("a query takes %d calls, and %d without a model", model, builtin)
	}
	if got := improve.CaseGroup(query); got != "trigger_query should_trigger" {
		t.Errorf("the group is %q", got)
	}
}
