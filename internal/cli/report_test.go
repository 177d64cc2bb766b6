package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestReport prints what agents are offered, and only what to copy with --settings.
func TestReport(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	if got := m.must(t, "report"); !strings.HasPrefix(got, "No skills yet; `whetstone push FOLDER` publishes the first one.") {
		t.Errorf("without skills: %q", got)
	}
	folder := t.TempDir()
	requiring(t, folder, "poems", "one", "")
	m.must(t, "push", folder)
	s.spend(t)
	got := m.must(t, "report", "--show", "all", "--context-window", "1000")
	for _, want := range []string{"Claude Code lists 1 skill with a context window of 1000 tokens", "of 40 characters needed", "acme:pdf", "poems", "unknown"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if got := m.must(t, "report", "--agent", "codex"); !strings.Contains(got, "Codex lists 1 skill with a context window of 272000 tokens") {
		t.Errorf("Codex:\n%s", got)
	}
	var settings map[string]map[string]string
	if got := m.must(t, "report", "--settings"); json.Unmarshal([]byte(got), &settings) != nil || settings["skillOverrides"] == nil {
		t.Errorf("settings: %s", got)
	}
	if got := m.must(t, "report", "--settings", "--agent", "codex"); got != "# Nothing to switch off.\n" {
		t.Errorf("settings of Codex: %q", got)
	}
	var all struct {
		Budget struct{ Unit string }
		Skills []struct{ Name string }
	}
	m.answers(t, &all, "report", "--show", "all")
	if all.Budget.Unit != "characters" || len(all.Skills) != 3 {
		t.Errorf("as JSON: %+v", all)
	}
	for flag, want := range map[string]string{"--agent=cursor": "--agent", "--days=0": "days", "--context-window=5": "context_window", "--page=0": "page"} {
		m.run(t, "report", flag).want(t, term.ExitUsage, want)
	}
}
