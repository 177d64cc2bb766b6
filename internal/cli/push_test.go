package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

type pushed struct {
	Status, Name, Version, ContentHash string
	IsCurrent                          bool
	Files                              int
	LeftOut                            []string
}

func (m machine) push(t *testing.T, args ...string) (out pushed) {
	t.Helper()
	var raw map[string]any
	r := m.answers(t, &raw, append([]string{"push"}, args...)...)
	apptest.WantKeys(t, raw, "status", "entry_id", "name", "version", "is_current", "content_hash", "size", "files", "left_out", "url")
	out = pushed{
		Status: raw["status"].(string), Name: raw["name"].(string), Version: raw["version"].(string),
		ContentHash: raw["content_hash"].(string), IsCurrent: raw["is_current"].(bool), Files: int(raw["files"].(float64)),
	}
	for _, path := range raw["left_out"].([]any) {
		out.LeftOut = append(out.LeftOut, path.(string))
	}
	if r.code != term.ExitOK {
		t.Fatalf("push %q: %+v", args, r)
	}
	return out
}

func TestPush(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	dir := skillFolder(t, "pdf", "one")
	put(t, dir, ".env", "SECRET=1")
	put(t, dir, ".git/config", "x")
	put(t, dir, "node_modules/a/index.js", "x")
	put(t, dir, "drafts/idea.md", "x")
	put(t, dir, ".skillignore", "drafts/\n.skillignore\n")

	got := m.push(t, dir)
	first := got.ContentHash
	want := pushed{"created", "pdf", "1.0.0", first, true, 1, []string{".env", ".git/", ".skillignore", "drafts/", "node_modules/"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first push (-want +got):\n%s", diff)
	}
	t.Run("same folder, same hash", func(t *testing.T) {
		other := skillFolder(t, "pdf", "one")
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(other, "SKILL.md"), old, old); err != nil {
			t.Fatal(err)
		}
		if got := m.push(t, other); got.Status != "unchanged" || got.Version != "1.0.0" || got.ContentHash != first {
			t.Errorf("got %+v, want it unchanged", got)
		}
		if got := m.must(t, "push", other); !strings.HasPrefix(got, "Unchanged: pdf 1.0.0 already has this content (1 file, ") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("next patch", func(t *testing.T) {
		writeSkill(t, dir, "pdf", "two")
		if got := m.push(t, dir, "-m", "says two"); got.Status != "pushed" || got.Version != "1.0.1" || got.ContentHash == first {
			t.Errorf("got %+v, want 1.0.1", got)
		}
		if got := m.must(t, "history", "pdf"); !strings.Contains(got, "1.0.1 pushed by cli, current  says two\n") {
			t.Errorf("history %q", got)
		}
	})
	t.Run("same content under another version", func(t *testing.T) {
		if got := m.push(t, dir, "--version", "2.0.0"); got.Status != "pushed" || got.Version != "2.0.0" {
			t.Errorf("got %+v, want 2.0.0", got)
		}
		if got := m.push(t, dir, "--version", "2.0.0"); got.Status != "unchanged" {
			t.Errorf("got %+v, want it unchanged", got)
		}
	})
	t.Run("other content under the same version", func(t *testing.T) {
		writeSkill(t, dir, "pdf", "three")
		m.run(t, "push", dir, "--version", "2.0.0").want(t, term.ExitFailed, "whetstone: Version 2.0.0 exists with other content")
	})
	t.Run("version of the SKILL.md", func(t *testing.T) {
		put(t, dir, "SKILL.md", "---\nname: pdf\ndescription: d\nversion: 3.1\n---\n")
		if got := m.push(t, dir); got.Version != "3.1" {
			t.Errorf("got %+v, want 3.1", got)
		}
		put(t, dir, "SKILL.md", "---\nname: pdf\ndescription: d\nversion: 3.1\nmetadata:\n  version: \"3.2.0\"\n---\n")
		if got := m.push(t, dir); got.Version != "3.2.0" {
			t.Errorf("got %+v, want 3.2.0", got)
		}
	})
	t.Run("not current any more", func(t *testing.T) {
		m.must(t, "rollback", "pdf", "1.0.0")
		if got := m.push(t, dir); got.Status != "exists" || got.IsCurrent {
			t.Errorf("got %+v, want that it exists", got)
		}
		if got := m.must(t, "push", dir); !strings.Contains(got, "pdf 3.2.0 already has this content, but another version is current") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("here", func(t *testing.T) {
		t.Chdir(dir)
		if got := m.push(t, "--name", "other", "--visibility", "public", "--source-repo", "acme/skills"); got.Status != "created" || got.Name != "other" {
			t.Errorf("got %+v", got)
		}
		if got := m.must(t, "list", "--public"); !strings.Contains(got, "other  3.2.0    skill  public") {
			t.Errorf("list %q", got)
		}
	})
}

func TestNextVersion(t *testing.T) {
	m := startService(t).loggedIn(t)
	dir := skillFolder(t, "pdf", "one")
	for i, c := range []struct{ push, next string }{
		{"latest", "1.0.0"},
		{"0.0.0-repohost.0123456", "1.0.1"},
		{"v1.4", "1.4.1"},
		{"2.0.0-rc.1", "1.4.2"},
		{"0.9.9", "1.4.3"},
		{"10.0.0+build", "10.0.1"},
	} {
		writeSkill(t, dir, "pdf", "pushed "+string(rune('a'+i)))
		m.push(t, dir, "--version", c.push)
		writeSkill(t, dir, "pdf", "next "+string(rune('a'+i)))
		if got := m.push(t, dir); got.Version != c.next {
			t.Errorf("%s after %s, want %s", got.Version, c.push, c.next)
		}
	}
}

func TestPushRefused(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	m.must(t, "push", skillFolder(t, "pdf", "one"))
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, dir string)
		args    []string
		message string
	}{
		{"empty folder", func(*testing.T, string) {}, nil, "no SKILL.md at the root of the archive"},
		{"no frontmatter", func(t *testing.T, dir string) { put(t, dir, "SKILL.md", "# Hi") }, nil, "SKILL.md does not begin with a line ---"},
		{"no name", func(t *testing.T, dir string) { put(t, dir, "SKILL.md", "---\ndescription: d\n---\n") }, nil, "SKILL.md has no name; add a line `name: ...`"},
		{"no description", func(t *testing.T, dir string) { put(t, dir, "SKILL.md", "---\nname: x\n---\n") }, nil, "SKILL.md has no description; add a line `description: ...`"},
		{"neither", func(t *testing.T, dir string) { put(t, dir, "SKILL.md", "---\nlicense: MIT\n---\n") }, nil, "whetstone: SKILL.md has no name"},
		{"large file", func(t *testing.T, dir string) {
			writeSkill(t, dir, "x", "")
			put(t, dir, "big", strings.Repeat("x", 10<<20+1))
		}, nil, `"big": the file is larger than 10 MiB`},
		{"link out of the folder", func(t *testing.T, dir string) {
			writeSkill(t, dir, "x", "")
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, "passwd")); err != nil {
				t.Fatal(err)
			}
		}, nil, `"passwd"`},
		{"no folder", func(t *testing.T, dir string) { remove(t, dir) }, nil, "There is no folder"},
		{"agent without a name", func(t *testing.T, dir string) { put(t, dir, "AGENT.md", "x") }, []string{"--type", "agent"}, "name must be given with --name"},
		{"another type", func(t *testing.T, dir string) { writeSkill(t, dir, "pdf", "x") }, []string{"--type", "agent"}, "pdf already exists as a skill; use --type skill or another --name"},
		{"another visibility", func(t *testing.T, dir string) { writeSkill(t, dir, "pdf", "x") }, []string{"--visibility", "public"}, "pdf already exists with the visibility org, which a push does not change"},
		{"bad version", func(t *testing.T, dir string) { writeSkill(t, dir, "pdf", "x") }, []string{"--version", "1/2"}, "version must be 1 to 128 printable characters without /"},
		{"bad repository", func(t *testing.T, dir string) { writeSkill(t, dir, "new", "x") }, []string{"--source-repo", "skills"}, "source_repo must be owner/repo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.prepare(t, dir)
			r := m.run(t, append([]string{"push", dir}, c.args...)...)
			if !strings.Contains(r.stderr, c.message) || r.stdout != "" || r.code == term.ExitOK {
				t.Errorf("got %+v, want %q", r, c.message)
			}
			if c.name != "large file" && r.code != term.ExitUsage {
				t.Errorf("exit code %d", r.code)
			}
		})
	}
	var entries []map[string]any
	if m.answers(t, &entries, "list"); len(entries) != 1 {
		t.Errorf("%d entries after nothing but refusals, want 1", len(entries))
	}
}

// TestDryRun needs neither a login nor a server.
func TestDryRun(t *testing.T) {
	m := newMachine(t)
	dir := skillFolder(t, "pdf", "one")
	put(t, dir, "scripts/run.sh", "echo")
	put(t, dir, ".env.local", "SECRET=1")
	got := m.must(t, "push", dir, "--dry-run")
	for _, line := range []string{"pdf (next patch), nothing sent:\n", "\n  SKILL.md        49 B\n", "\n  scripts/run.sh  4 B\n", "\n  .env.local      left out\n", "\n2 files, "} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
	var out map[string]any
	m.answers(t, &out, "push", dir, "--dry-run", "--version", "7")
	apptest.WantKeys(t, out, "name", "version", "content_hash", "size", "files", "left_out")
	if out["version"] != "7" || !cmp.Equal(out["left_out"], []any{".env.local"}) || len(out["files"].([]any)) != 2 {
		t.Errorf("got %v", out)
	}
	put(t, dir, "SKILL.md", "no frontmatter")
	m.run(t, "push", dir, "--dry-run").want(t, term.ExitUsage, "SKILL.md does not begin with a line ---")
}

func TestPushElse(t *testing.T) {
	m := startService(t).loggedIn(t)
	dir := t.TempDir()
	put(t, dir, "AGENT.md", "You review code.")
	if got := m.push(t, dir, "--type", "agent", "--name", "reviewer"); got.Status != "created" {
		t.Errorf("got %+v", got)
	}
	m.run(t, "install", "reviewer").want(t, term.ExitUsage, "reviewer is an agent, not a skill; name its folder with --dir")
	agents := t.TempDir()
	m.must(t, "install", "reviewer", "--dir", agents)
	if content, err := os.ReadFile(filepath.Join(agents, "reviewer", "AGENT.md")); err != nil || string(content) != "You review code." {
		t.Errorf("got %q, %v", content, err)
	}
	renamed := skillFolder(t, "pdf", "one")
	m.run(t, "push", renamed, "--name", "tables").want(t, term.ExitOK, "SKILL.md names the skill pdf; agents expect the name of its folder, which will be tables")
}
