package grades

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFromEvals(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"expectations": {
			`{"skill_name":"pdf","evals":[{"id":1,"prompt":"p","expectations":["The table has a header row","Numbers are right-aligned."]},
				{"id":2,"prompt":"q","expectations":["the table has a header row","It names its source"]}]}`,
			[]string{"The table has a header row", "Numbers are right-aligned", "It names its source"},
		},
		"assertions":  {`{"evals":[{"assertions":["The answer names a page"]}]}`, []string{"The answer names a page"}},
		"other types": {`{"evals":[{"expectations":[1,{"a":1},"short one",null]}]}`, nil},
		"no file":     {`not json`, nil},
		"no evals":    {`{"evals":"none"}`, nil},
	} {
		if diff := cmp.Diff(test.want, draftOfEvals([]byte(test.file))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFromSkill(t *testing.T) {
	const skill = `---
name: pdf
description: Extracts tables from PDF files as CSV. Use when the user asks for tables. Keeps the numbers exactly as printed.
---
# PDF

- Read the file
- **Always** keep the order of the columns.
- [ ] Never guess a number that is not legible
1. You must name the page of each table

` + "```" + `
- always in a fence
` + "```" + `
`
	want := []string{
		"Always keep the order of the columns", "Never guess a number that is not legible", "You must name the page of each table",
		"The session did what the skill is for: Extracts tables from PDF files as CSV",
		"The session did what the skill is for: Keeps the numbers exactly as printed",
	}
	if diff := cmp.Diff(want, draftOfSkill([]byte(skill))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := draftOfSkill([]byte("no skill at all")); len(got) != 0 {
		t.Errorf("drafted %q of a file that is no skill", got)
	}
}

// TestBounds: a draft stays small whatever the skill says.
func TestBounds(t *testing.T) {
	var b strings.Builder
	b.WriteString("---\nname: x\ndescription: y\n---\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "- you must %d %s\n", i, strings.Repeat("word\x00 ", 1000))
	}
	got := draftOfSkill([]byte(b.String()))
	if len(got) != 10 {
		t.Errorf("%d expectations", len(got))
	}
	for _, e := range got {
		if len(e) > 303 || strings.ContainsRune(e, 0) {
			t.Errorf("an expectation of %d bytes: %q", len(e), e)
		}
	}
}
