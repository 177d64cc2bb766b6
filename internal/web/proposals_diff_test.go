package web

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

func TestWordDiff(t *testing.T) {
	before := "---\nname: pdf\n---\nRead the table.\n" + strings.Repeat("same\n", 20) + "Write it.\n"
	after := "---\nname: pdf\n---\nRead the whole table.\n" + strings.Repeat("same\n", 20) + "Write it.\nCheck it.\n"
	got, more := wordDiff(string(compare.Texts("SKILL.md", before, after)))
	if more || len(got) != 2 || got[0].Where != "line 1" {
		t.Fatalf("got %d passages, %v: %+v", len(got), more, got)
	}
	var added []string
	for _, p := range got {
		for _, s := range p.Spans {
			if s.Kind == compare.Added {
				added = append(added, strings.TrimSpace(s.Text))
			}
			if s.Kind == compare.Removed {
				t.Errorf("%q is shown as removed", s.Text)
			}
		}
	}
	if diff := cmp.Diff([]string{"whole", "Check it."}, added); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	if got, more := wordDiff(""); len(got) > 0 || more {
		t.Errorf("no diff is %v", got)
	}
	long := string(compare.Texts("SKILL.md", "", strings.Repeat("word word word\n", 20_000)))
	if _, more := wordDiff(long); !more {
		t.Error("a long diff is shown whole")
	}
}

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
