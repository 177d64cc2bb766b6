package outcome_test

import (
	"math"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
)

// TestScore: a gate leads with the scores of both versions, on the cases that both decided.
func TestScore(t *testing.T) {
	cases := []decision.Case{
		{ID: "a", New: decision.Count{Passed: 3, Decided: 3}, Current: decision.Count{Passed: 1, Decided: 2}},
		{ID: "b", New: decision.Count{Passed: 1, Decided: 4}, Current: decision.Count{Passed: 1, Decided: 4}},
		{ID: "c", New: decision.Count{Passed: 3, Decided: 3}},
	}
	d := decision.Decide([]decision.Suite{{ID: "s", Cases: cases}}, decision.Policy{})
	got := outcome.Suite(d.Suites[0], cases, nil, nil)
	if s := got.Score; s == nil || s.New != 0.625 || s.Current != 0.375 || math.Abs(s.Difference-0.25) > 1e-9 ||
		!(s.Interval[0] < s.Difference && s.Difference < s.Interval[1]) {
		t.Fatalf("the score is %+v", got.Score)
	}
	var b strings.Builder
	if err := outcome.Markdown(&b, api.Gate{Suites: []api.GateSuite{got}}, nil); err != nil {
		t.Fatal(err)
	}
	if want := "\nScore: 62 %, was 38 % (+25 points, "; !strings.Contains(b.String(), want) {
		t.Errorf("%q lacks %q", b.String(), want)
	}
	if undecided := outcome.Suite(d.Suites[0], cases[2:], nil, nil); undecided.Score != nil {
		t.Errorf("without a case that both decided: %+v", undecided.Score)
	}
}
