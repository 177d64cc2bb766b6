package web

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// TestLossless: a case that the form could not give back whole has none.
func TestLossless(t *testing.T) {
	for name, c := range map[string]suites.Case{
		"a rubric and points":       {Kind: suites.LLMRubric, Rubric: "good", Expectations: []string{"short"}},
		"a point of two lines":      {Kind: suites.LLMRubric, Expectations: []string{"short\nand sweet"}},
		"an argument of two lines":  {Kind: suites.ExactMatch, Subject: suites.Subject{Command: []string{"sh", "-c", "a\nb"}}},
		"a tag with a comma":        {Kind: suites.TriggerQuery, Query: "x", Tags: []string{"a,b"}},
		"a task, which has no form": {Kind: suites.TaskPackage},
	} {
		if _, err := caseFormOf(c); err == nil {
			t.Errorf("%s has a form", name)
		}
	}
	for name, c := range map[string]suites.Case{
		"a rubric of two lines": {Kind: suites.LLMRubric, Rubric: "good\nand short"},
		"points":                {Kind: suites.LLMRubric, Expectations: []string{"short", "right"}},
	} {
		if _, err := caseFormOf(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
