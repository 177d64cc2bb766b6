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
	if strings.Contains(b.String(), "Effort") {
		t.Errorf("without a model, the comment has an effort: %s", b.String())
	}
	got.Effort = &api.GateEffort{Duration: &api.EvalFigure{Value: 3, Interval: [2]float64{2, 4}}}
	got.NoSkillEffort = &api.GateEffort{
		Cost: &api.EvalFigure{Value: 0.4, Interval: [2]float64{0.3, 0.55}}, Turns: &api.EvalFigure{Value: 0.5, Interval: [2]float64{0.25, 1}},
		Duration: &api.EvalFigure{Value: 1.25, Interval: [2]float64{1, 1.5}},
	}
	b.Reset()
	if err := outcome.Markdown(&b, api.Gate{Suites: []api.GateSuite{got}}, nil); err != nil {
		t.Fatal(err)
	}
	want := "\nEffort, as a multiple of that of no skill: cost 0.40 (0.30 to 0.55), turns 0.50 (0.25 to 1.00), time 1.25 (1.00 to 1.50).\n"
	if !strings.Contains(b.String(), want) || strings.Contains(b.String(), "current version") {
		t.Errorf("%q lacks %q, or has the time of checks", b.String(), want)
	}
	if undecided := outcome.Suite(d.Suites[0], cases[2:], nil, nil); undecided.Score != nil {
		t.Errorf("without a case that both decided: %+v", undecided.Score)
	}
}
