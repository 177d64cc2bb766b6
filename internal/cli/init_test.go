package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

func TestInit(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := filepath.Join("skills", "pdf-tables")
	m := newMachine(t)
	if got := m.must(t, "init", "pdf-tables", "--dir", "skills"); !strings.HasPrefix(got, "Created "+dir+" ") {
		t.Errorf("init: %s", got)
	}
	// There is no advice to follow, either.
	if got := m.must(t, "check", dir, "--strict"); got != "0 errors, 0 warnings, 0 notes: pass\n" {
		t.Errorf("check: %s", got)
	}
	m.must(t, "push", dir, "--dry-run")
	var cases struct{ Evals []any }
	text, err := os.ReadFile(filepath.Join(dir, "evals", "evals.json"))
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases.Evals) != 2 {
		t.Errorf("got the cases %s, %v", text, err)
	}

	write(t, filepath.Join(dir, "SKILL.md"), "mine")
	run(t, "init", "pdf-tables", "--dir", "skills").want(t, term.ExitFailed, dir+" exists already; nothing was changed")
	if got, err := os.ReadFile(filepath.Join(dir, "SKILL.md")); string(got) != "mine" {
		t.Errorf("the folder was changed: %s, %v", got, err)
	}
	for _, name := range []string{"PDF", "-x", "a--b", "../x", "a b", ".", "con", strings.Repeat("a", 65)} {
		run(t, "init", name, "--dir=skills").want(t, term.ExitUsage, "")
	}
	if made, err := os.ReadDir("skills"); len(made) != 1 {
		t.Errorf("got %v, %v", made, err)
	}
}

// TestInitRuns pushes what init made, and imports its cases.
func TestInitRuns(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	t.Chdir(t.TempDir())
	m.must(t, "init", "my-skill")
	m.must(t, "push", "my-skill")
	if got := m.must(t, "eval", "import", "my-skill"); !strings.Contains(got, "Imported 2 cases into the suite my-skill") {
		t.Errorf("eval import: %s", got)
	}
}
