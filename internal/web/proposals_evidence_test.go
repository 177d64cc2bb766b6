package web

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFacts(t *testing.T) {
	for raw, want := range map[string][]fact{
		`{"signals":12,"skill_signals":16,"contributors":3,"buckets":[{"bucket":"search","count":9},{"bucket":"sums","count":3}],"period":{"from":"2026-W01","to":"2026-W03"}}`: {
			{Name: "Noticed with", Value: "search 9, sums 3"},
			{Name: "Contributors", Value: "3"},
			{Name: "Period", Value: "2026-W01 to 2026-W03"},
			{Name: "Signals", Value: "12"},
			{Name: "Signals about the skill", Value: "16"},
		},
		`{"improve_run_id":"r","suite_id":"s","judge":{"api":"openai","model":"m","prompt_version":"1"},"holdout":{"passed_before":1,"passed_after":4,"cases":5}}`: {
			{Name: "Cases that chose it", Value: "4 of 5 right, 1 with the current text"},
			{Name: "Improve run", Value: "View the improve run", URL: "/improve-runs/r"},
			{Name: "Judge", Value: "openai m"},
			{Name: "Suite", Value: "View the suite", URL: "/suites/s"},
		},
		`{"deep":{"er":[1,"x",{"y":true}]},"none":null}`: {
			{Name: "Deep: er 1", Value: "1"}, {Name: "Deep: er 2", Value: "x"}, {Name: "Deep: er 3: y", Value: "true"},
		},
		`"just words"`: {{Name: "Evidence", Value: `"just words"`}},
		`{}`:           nil,
	} {
		if diff := cmp.Diff(want, factsOf(json.RawMessage(raw))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}
