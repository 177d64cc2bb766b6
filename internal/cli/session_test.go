package cli_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client"
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
	if len(all) != 2 || all[0].Agent != "claude-code" || all[0].Turns != 2 || all[0].Grade != nil {
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
	m.must(t, "grade", "session-001", "fail", "--skill", "pdf")
	m.must(t, "grade", "session-001", "pass", "--skill", "pdf") // replaces
	var detail client.SessionDetail
	m.answers(t, &detail, "session", "show", "session-000")
	if len(detail.Grades) != 1 || detail.Grades[0].PassRate != 0 || detail.Grades[0].Basis != "person" || *detail.Grades[0].Reason != "Wrong total" {
		t.Errorf("grades %+v", detail.Grades)
	}
	if text := m.must(t, "session", "list", "--outcome", "fail"); strings.Count(text, "\n") != 2 || !strings.Contains(text, "0% (person)") {
		t.Errorf("prints\n%s", text)
	}
	if got := m.run(t, "grade", "session-000", "maybe", "--skill", "pdf"); got.code != term.ExitUsage {
		t.Errorf("a strange verdict: %+v", got)
	}
	if got := m.run(t, "grade", "session-000", "pass"); got.code != term.ExitUsage {
		t.Errorf("without a skill: %+v", got)
	}
	if got := m.run(t, "grade", "session-000", "pass", "--skill", "other"); got.code == 0 {
		t.Errorf("another skill: %+v", got)
	}
}
