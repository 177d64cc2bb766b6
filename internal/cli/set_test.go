package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestSet makes a set, changes it, and installs it twice: the second time nothing is to be done.
func TestSet(t *testing.T) {
	s := startService(t)
	author, user := s.loggedIn(t), s.loggedIn(t)
	author.push(t, skillFolder(t, "pdf", "one"))
	author.push(t, skillFolder(t, "csv", "one"))
	if got := user.must(t, "set", "list"); !strings.Contains(got, "whetstone set create NAME") {
		t.Errorf("no sets: %q", got)
	}
	author.must(t, "set", "create", "docs", "pdf ^1", "--repository", "acme/docs")
	author.must(t, "set", "add", "docs", "csv ^9")
	if got := user.must(t, "set", "show", "docs"); !strings.Contains(got, "nothing is published in the range") || !strings.Contains(got, "^1") {
		t.Errorf("show: %q", got)
	}
	author.must(t, "set", "add", "docs", "csv")
	if r := author.run(t, "set", "remove", "docs", "nope"); r.code != term.ExitFailed || !strings.Contains(r.stderr, "whetstone set show docs") {
		t.Errorf("remove: %d %q", r.code, r.stderr)
	}
	if got := user.must(t, "set", "install", "docs", "--dry-run"); strings.Count(got, "would update") < 2 {
		t.Errorf("dry run: %q", got)
	}
	if _, err := os.Stat(user.skills()); err == nil {
		t.Error("a dry run made the folder")
	}
	user.must(t, "set", "install", "docs")
	for _, name := range []string{"pdf", "csv"} {
		if _, err := os.Stat(filepath.Join(user.skills(), name, "SKILL.md")); err != nil {
			t.Error(err)
		}
	}
	if got := user.must(t, "set", "install", "docs"); strings.Count(got, "up to date") < 2 {
		t.Errorf("again: %q", got)
	}
	// What was edited is kept.
	if err := os.WriteFile(filepath.Join(user.skills(), "pdf", "SKILL.md"), []byte("edited"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := skillFolder(t, "pdf", "two")
	author.must(t, "push", next, "--version", "1.1.0")
	if r := user.run(t, "set", "install", "docs"); r.code != term.ExitEdited {
		t.Errorf("edited: %d %q %q", r.code, r.stdout, r.stderr)
	}
	author.must(t, "set", "remove", "docs", "csv")
	if got := user.must(t, "set", "list", "--repository", "acme/docs"); !strings.Contains(got, "docs") {
		t.Errorf("list: %q", got)
	}
}
