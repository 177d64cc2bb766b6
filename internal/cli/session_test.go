package cli_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestSessions: a person finds a session, reads it and grades it.
func TestSessions(t *testing.T) {
	s := startService(t)
	m := s.importing(t, 2)
	if got := m.must(t, "session", "list"); got != "No sessions.\n" {
		t.Errorf("prints %q", got)
	}
	m.must(t, "import")
	var all []client.Session
	m.answers(t, &all, "session", "list", "--skill", "pdf", "--mine")
	if len(all) != 2 || all[0].Agent != "claude-code" || all[0].Turns == nil || *all[0].Turns != 2 || all[0].Grade != nil {
		t.Fatalf("sessions %+v, want 2 of 2 turns", all)
	}
	var one []client.Session
	if m.answers(t, &one, "session", "list", "--limit", "1"); len(one) != 1 {
		t.Errorf("%d sessions, want 1", len(one))
	}
	text := m.must(t, "session", "show", "session-000")
	for _, want := range []string{"Session     session-000", "activation  pdf", "tool        Skill", "Grade       -"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if got := m.run(t, "session", "show", "nonsense"); got.code != term.ExitFailed {
		t.Errorf("an unknown session: %+v", got)
	}

	if got := m.must(t, "grade", "session-000", "fail", "--skill", "pdf", "--reason", "Wrong total"); got != "Graded pdf in session session-000: fail.\n" {
		t.Errorf("prints %q", got)
	}
	if got := m.must(t, "grade", "session-001", "fail"); got != "Graded pdf in session session-001: fail.\n" { // the skill that it used
		t.Errorf("prints %q", got)
	}
	m.must(t, "grade", "session-001", "pass", "--skill", "pdf") // replaces
	var detail client.SessionDetail
	m.answers(t, &detail, "session", "show", "session-000")
	if len(detail.Grades) != 1 || detail.Grades[0].PassRate != 0 || detail.Grades[0].Basis != "person" || *detail.Grades[0].Reason != "Wrong total" {
		t.Errorf("grades %+v", detail.Grades)
	}
	if text := m.must(t, "session", "list", "--outcome", "fail"); strings.Count(text, "\n") != 2 || !strings.Contains(text, "0% (person)") {
		t.Errorf("prints\n%s", text)
	}
	var groups []client.FailureGroup
	m.answers(t, &groups, "skills", "failures", "pdf")
	if len(groups) != 1 || groups[0].Label != "Wrong total" || groups[0].LabelledBy != nil || groups[0].Sessions[0] != "session-000" {
		t.Errorf("failures %+v", groups)
	}
	if text := m.must(t, "skills", "failures", "pdf", "--days", "7"); !strings.Contains(text, "Wrong total      -       session-000") {
		t.Errorf("prints\n%s", text)
	}
	m.run(t, "skills", "failures", "none").want(t, term.ExitFailed, "Skill not found: none")
	if got := m.run(t, "grade", "session-000", "maybe", "--skill", "pdf"); got.code != term.ExitUsage {
		t.Errorf("a strange verdict: %+v", got)
	}
	if got := m.run(t, "grade", "session-000", "pass", "--skill", "other"); got.code == 0 {
		t.Errorf("another skill: %+v", got)
	}
}

// TestCaseOfSession: a session becomes a test case of a suite, or a draft of the source of
// its skill, which the upload has found by the name in SKILL.md; drafts become cases.
func TestCaseOfSession(t *testing.T) {
	s := startService(t)
	m := s.importing(t, 1)
	m.must(t, "import")
	var made api.CreatedCase
	m.answers(t, &made, "session", "case", "session-000", "--query", "Read it", "--should-not-trigger")
	if made.Skill != "pdf" || made.SuiteID == nil || made.Case.Query != "Read it" || made.Case.Expectation != "should_not_trigger" {
		t.Errorf("made %+v", made)
	}
	m.run(t, "session", "case", "session-000").want(t, term.ExitUsage, "query is required")
	text := m.must(t, "session", "case", "session-000", "--skill", "pdf", "--suite", "pdf", "--query", "Read it")
	if want := "Added a case of pdf to suite " + *made.SuiteID + ": Read it\n"; text != want {
		t.Errorf("prints %q, want %q", text, want)
	}
	var other api.CreatedCase
	m.answers(t, &other, "session", "case", "session-000", "--query", "Read it", "--new-suite", "Invoices")
	if other.SuiteID == nil || *other.SuiteID == *made.SuiteID {
		t.Errorf("the case of a new suite: %+v", other)
	}
	if got := m.run(t, "session", "case", "session-000", "--new-suite", "a", "--suite", "b"); got.code != term.ExitUsage {
		t.Errorf("two suites: %+v", got)
	}

	m.must(t, "source", "upload", skillFolder(t, "pdf", "one"), "--label", "pdf")
	var draft api.CreatedCase
	m.answers(t, &draft, "session", "case", "session-000", "--source", "pdf", "--query", "Read all")
	if draft.SuiteID != nil || draft.Case.SourceID == nil {
		t.Errorf("the draft is %+v", draft)
	}
	text = m.must(t, "source", "drafts", "pdf", "--suite", "Invoices")
	if want := "Added 1 case to suite " + *other.SuiteID + ", which had 0 already.\n"; text != want {
		t.Errorf("prints %q, want %q", text, want)
	}
	var applied api.AppliedDrafts
	m.answers(t, &applied, "source", "drafts", "pdf", "--suite", "Invoices")
	if applied.Added != 0 || applied.Already != 1 {
		t.Errorf("the second time: %+v", applied)
	}
}

// TestImportGrade: an import ends with pass rates, which name their basis. Without a
// judge they are those of what happened.
func TestImportGrade(t *testing.T) {
	s := startService(t)
	m := s.importing(t, 3)
	var out struct {
		Grading struct {
			Enabled  bool `json:"enabled"`
			Ungraded int  `json:"ungraded_sessions"`
			Skills   []struct {
				Name     string           `json:"name"`
				PassRate float64          `json:"pass_rate"`
				Basis    string           `json:"pass_rate_basis"`
				Graded   map[string]int64 `json:"graded_by_basis"`
			} `json:"skills"`
		} `json:"grading"`
	}
	m.answers(t, &out, "import", "--grade")
	g := out.Grading
	if !g.Enabled || g.Ungraded != 0 || len(g.Skills) != 1 || g.Skills[0].Name != "pdf" || g.Skills[0].PassRate != 1 ||
		g.Skills[0].Basis != "outcome" || g.Skills[0].Graded["outcome"] != 3 {
		t.Errorf("grading %+v, want 3 sessions by their outcome", g)
	}
	m.must(t, "grade", "session-000", "fail", "--skill", "pdf")
	text := m.must(t, "import", "--grade")
	for _, want := range []string{"Read 0 of 3 transcripts, 3 imported before.", "67% (21% to 94%)", "person 0% of 1, outcome 100% of 2", "No session was judged"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if got := m.run(t, "import", "--grade", "--dry-run"); got.code != term.ExitUsage {
		t.Errorf("a dry run cannot be graded: %+v", got)
	}
}

// TestImportGradeByMember: only an admin can switch the grader on.
func TestImportGradeByMember(t *testing.T) {
	s := startService(t)
	m := s.importing(t, 1)
	key := s.must(t, "key", "create", "--org", "default", "--user", "eve@example.org", "--role", "member")["api_key"].(string)
	text := m.must(t, "import", "--grade", "--api-key", key)
	if !strings.Contains(text, "only an admin can switch it on") || !strings.Contains(text, "No skill has a graded session.") {
		t.Errorf("prints\n%s", text)
	}
}
