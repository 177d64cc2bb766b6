package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// requiring writes a skill that requires others.
func requiring(t *testing.T, dir, name, body, needs string) {
	t.Helper()
	put(t, dir, "SKILL.md", "---\nname: "+name+"\ndescription: Does "+name+".\nmetadata:\n  requires: \""+needs+"\"\n---\n"+body+"\n")
}

// marks are what the lock file says about requirements.
func (m machine) marks(t *testing.T) map[string]string {
	t.Helper()
	skills, err := install.ReadLock(m.skills())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for name, r := range skills {
		all[name] = strings.Join(r.RequiredBy, " ")
		if r.Explicit {
			all[name] += " explicit"
		}
	}
	return all
}

func wantSame(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestInstallAlong installs what a skill requires, keeps account of it in the lock
// file, and follows later versions.
func TestInstallAlong(t *testing.T) {
	s := startService(t)
	author, user := s.loggedIn(t), s.loggedIn(t)
	report, charts, fonts := t.TempDir(), t.TempDir(), t.TempDir()
	requiring(t, report, "report", "one", "charts >= 1.0")
	got := author.run(t, "push", report)
	if got.code != term.ExitOK || !strings.Contains(got.stderr, "report requires charts >= 1.0: charts is not in the registry") {
		t.Errorf("push: %+v", got)
	}
	got = user.run(t, "install", "report") // goes on, and says what is missing
	if got.code != term.ExitOK || !strings.Contains(got.stderr, "charts is not in the registry") {
		t.Errorf("install: %+v", got)
	}
	requiring(t, charts, "charts", "one", "fonts, report")
	requiring(t, fonts, "fonts", "one", "")
	author.push(t, fonts)
	if got := author.run(t, "push", charts); !strings.Contains(got.stderr, "Skills require each other: charts -> report -> charts") {
		t.Errorf("push: %+v", got)
	}

	out := user.must(t, "install", "report")
	for _, line := range []string{"Installed charts 1.0.0, required by report\n", "Installed fonts 1.0.0, required by charts\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("%q lacks %q", out, line)
		}
	}
	for _, name := range []string{"charts", "fonts"} {
		if _, err := os.Stat(filepath.Join(user.skills(), name, "SKILL.md")); err != nil {
			t.Error(err)
		}
	}
	wantSame(t, "marks", user.marks(t), map[string]string{"report": "charts explicit", "charts": "report", "fonts": "charts"})
	user.must(t, "install", "fonts")
	wantSame(t, "after an install by name", user.marks(t), map[string]string{"report": "charts explicit", "charts": "report", "fonts": "charts explicit"})

	t.Run("installed by name before", func(t *testing.T) {
		other := s.loggedIn(t)
		other.must(t, "install", "fonts")
		other.must(t, "install", "charts")
		wantSame(t, "marks", other.marks(t), map[string]string{"charts": "report explicit", "report": "charts", "fonts": "charts explicit"})
	})
	t.Run("sync", func(t *testing.T) {
		colours := t.TempDir()
		requiring(t, colours, "colours", "one", "")
		author.push(t, colours)
		requiring(t, report, "report", "two", "colours")
		requiring(t, charts, "charts", "two", "")
		author.push(t, charts)
		author.push(t, report)
		if out := user.must(t, "sync", "--dry-run"); !strings.Contains(out, "would install, required by report") {
			t.Errorf("dry run %q", out)
		}
		got := user.run(t, "sync")
		if got.code != term.ExitOK || !strings.Contains(got.stdout, "installed, required by report") ||
			!strings.Contains(got.stderr, "charts was installed for other skills, and no skill here requires it any more") {
			t.Errorf("sync: %+v", got)
		}
		wantSame(t, "marks", user.marks(t), map[string]string{"report": "", "charts": "", "fonts": "", "colours": "report"})
		user.must(t, "sync")
	})
	t.Run("without", func(t *testing.T) {
		alone := s.loggedIn(t)
		alone.must(t, "install", "report", "--no-requires")
		alone.must(t, "sync")
		wantSame(t, "marks", alone.marks(t), map[string]string{"report": ""})
	})
	t.Run("folder of somebody else", func(t *testing.T) {
		other := s.loggedIn(t)
		put(t, filepath.Join(other.skills(), "colours"), "SKILL.md", "mine")
		if out := other.must(t, "install", "report"); !strings.Contains(out, "colours 1.0.0, required by report, is left as it is") {
			t.Errorf("install %q", out)
		}
		if got := other.file(t, "colours/SKILL.md"); got != "mine" {
			t.Errorf("replaced by %q", got)
		}
	})
	t.Run("shown", func(t *testing.T) {
		requiring(t, report, "report", "three", "colours >= 2, charts, none")
		author.run(t, "push", report)
		out := author.must(t, "requires", "report")
		want := "report 1.0.2\n" +
			"├── colours >= 2: colours >= 2 is needed, but the current version is 1.0.0\n" +
			"├── charts: 1.0.1\n" +
			"└── none: none is not in the registry\n" +
			"No skill requires it.\n"
		wantSame(t, "tree", out, want)
		if out := author.must(t, "requires", "colours"); !strings.Contains(out, "Required by:\n  report 1.0.2, needs >= 2: not met\n") {
			t.Errorf("required by: %q", out)
		}
		got := author.run(t, "rollback", "charts", "--yes")
		if !strings.Contains(got.stderr, "charts is required by report") {
			t.Errorf("rollback: %+v", got)
		}
	})
}
