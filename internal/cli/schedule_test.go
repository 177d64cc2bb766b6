package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestSchedule makes a schedule, pauses and resumes it, starts a run, and deletes it.
func TestSchedule(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	m.push(t, skillFolder(t, "pdf", "one"))
	cases := filepath.Join(t.TempDir(), "suite.json")
	if err := os.WriteFile(cases, []byte(checks), 0o600); err != nil {
		t.Fatal(err)
	}
	m.must(t, "eval", "import", cases)
	if got := m.must(t, "eval", "schedule", "list"); !strings.Contains(got, "No schedules; `whetstone eval schedule create") {
		t.Errorf("no schedules: %q", got)
	}
	if r := m.run(t, "eval", "schedule", "create", "Checks", "--entry", "pdf", "--cron", "61 * * * *"); r.code == 0 || !strings.Contains(r.stderr, "cron") {
		t.Errorf("a wrong cron: %d %q", r.code, r.stderr)
	}
	if r := m.run(t, "eval", "schedule", "create", "Checks", "--entry", "pdf", "--max-cost-usd", "NaN"); r.code == 0 || !strings.Contains(r.stderr, "max-cost-usd") {
		t.Errorf("a limit that is no number: %d %q", r.code, r.stderr)
	}
	var made api.EvalSchedule
	if err := json.Unmarshal([]byte(m.must(t, "--json", "eval", "schedule", "create", "Checks", "--entry", "pdf", "--every", "2h")), &made); err != nil {
		t.Fatal(err)
	}
	if made.Every == nil || *made.Every != "2h" || !made.Enabled || made.Trials != 3 {
		t.Errorf("made %+v", made)
	}
	if got := m.must(t, "eval", "schedule", "pause", made.ID); !strings.Contains(got, "next: paused") {
		t.Errorf("paused: %q", got)
	}
	if got := m.must(t, "eval", "schedule", "resume", made.ID); strings.Contains(got, "paused") {
		t.Errorf("resumed: %q", got)
	}
	if got := m.must(t, "eval", "schedule", "run", made.ID); !strings.Contains(got, "whetstone eval watch") {
		t.Errorf("run: %q", got)
	}
	if got := m.must(t, "eval", "schedule", "list", "--suite", "Checks"); !strings.Contains(got, "every 2h") || !strings.Contains(got, made.ID) {
		t.Errorf("list: %q", got)
	}
	m.must(t, "eval", "schedule", "delete", made.ID)
	if r := m.run(t, "eval", "schedule", "pause", made.ID); r.code != term.ExitFailed || !strings.Contains(r.stderr, "Schedule not found") {
		t.Errorf("a deleted one: %d %q", r.code, r.stderr)
	}
}
