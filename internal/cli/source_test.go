package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// missed is a push in which a skill did not fire.
func missed(skill, text string) string {
	at := time.Now().UTC().Format(time.RFC3339)
	return fmt.Sprintf(`{"push_id":"0192d2b4-6a1e-7cc3-9d53-0a8f6a3d2f77","canonical":{
		"prompts":[{"prompt_id":"p","session_id":"s","occurred_at":%q,"prompt_text":%q,"prompt_kind":"user"}],
		"skill_invocations":[{"skill_invocation_id":"i","session_id":"s","occurred_at":%q,"skill_name":%q,"matched_prompt_id":"p","triggered":false}]}}`,
		at, text, at, skill)
}

func TestSource(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	if out := m.must(t, "source", "list"); !strings.Contains(out, "No cloud sources") {
		t.Errorf("empty list: %s", out)
	}
	s.api(t).Post("/api/v1/push", missed("pdf", "Read the table")).Want(201)
	var skill struct {
		Skill struct {
			ID string `json:"skill_id"`
		}
	}
	m.answers(t, &skill, "skills", "pdf")

	dir := skillFolder(t, "pdf", "one")
	var taken struct {
		ID       string
		Label    string
		Snapshot struct{ ID, ContentHash string }
	}
	m.answers(t, &taken, "source", "upload", dir, "--label", "tables", "--skill-id", skill.Skill.ID)
	first := taken.Snapshot.ID
	m.answers(t, &taken, "source", "upload", dir, "--source", taken.ID)
	if taken.Label != "tables" || taken.Snapshot.ID != first {
		t.Errorf("uploaded again: %+v, want the snapshot %s", taken, first)
	}
	if out := m.must(t, "source", "list", "--type", "upload", "--ids"); !strings.Contains(out, taken.ID) || !strings.Contains(out, "tables") {
		t.Errorf("list: %s", out)
	}
	m.run(t, "source", "sync", taken.ID).want(t, term.ExitFailed, "no repository")

	suggestion := m.suggestion(t, taken.ID)
	if out := m.must(t, "source", "show", taken.ID); !strings.Contains(out, suggestion) || !strings.Contains(out, "Validation") {
		t.Errorf("show: %s", out)
	}
	if out := m.must(t, "source", "review", taken.ID, suggestion, "--reject"); !strings.Contains(out, "rejected: Read the table") {
		t.Errorf("review: %s", out)
	}
	m.run(t, "source", "review", taken.ID, suggestion, "--accept").want(t, term.ExitFailed, "No suggestion")
	m.must(t, "source", "review", taken.ID, suggestion, "--clear")
	m.must(t, "source", "review", taken.ID, suggestion, "--accept")
	m.run(t, "source", "review", taken.ID, suggestion, "--clear", "--accept").want(t, term.ExitUsage, "")
	m.run(t, "source", "show", "unknown").want(t, term.ExitFailed, "No cloud source has the name or id unknown")
}

// suggestion waits for the suggestion of a source.
func (m machine) suggestion(t *testing.T, id string) string {
	t.Helper()
	var detail struct {
		EvalSuggestions []struct{ ID string }
	}
	apptest.Eventually(t, "a suggestion", func() bool {
		m.answers(t, &detail, "source", "show", id)
		return len(detail.EvalSuggestions) > 0
	})
	return detail.EvalSuggestions[0].ID
}
