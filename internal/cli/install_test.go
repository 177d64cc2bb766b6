package cli_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/cli"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

func TestInstall(t *testing.T) {
	s := startService(t)
	author, user := s.loggedIn(t), s.loggedIn(t)
	dir := skillFolder(t, "pdf", "one")
	put(t, dir, "old.md", "gone later")
	first := author.push(t, dir)
	writeSkill(t, dir, "pdf", "two")
	remove(t, filepath.Join(dir, "old.md"))
	author.push(t, dir)

	var out map[string]any
	user.answers(t, &out, "install", "pdf@1.0.0")
	apptest.WantKeys(t, out, "name", "organisation", "version", "content_hash", "path", "pinned", "recorded")
	if out["version"] != "1.0.0" || out["pinned"] != true || out["recorded"] != true || out["content_hash"] != first.ContentHash || out["path"] != filepath.Join(user.skills(), "pdf") {
		t.Errorf("installed %v", out)
	}
	if got := user.file(t, "pdf/SKILL.md"); !strings.HasSuffix(got, "one\n") {
		t.Errorf("SKILL.md %q", got)
	}
	got := user.must(t, "install", "pdf")
	if want := "Installed pdf 1.0.1 in " + filepath.Join(user.skills(), "pdf") + "\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(user.skills(), "pdf", "old.md")); err == nil {
		t.Error("a file of the old version is still there")
	}
	t.Run("by id", func(t *testing.T) {
		var entries []map[string]any
		author.answers(t, &entries, "list", "pdf")
		user.must(t, "install", entries[0]["id"].(string)+"@1.0.0")
		user.must(t, "install", entries[0]["id"].(string))
		user.run(t, "install", "00000000-0000-7000-8000-000000000000").want(t, term.ExitFailed, "No entry is named 00000000")
	})
	t.Run("recorded", func(t *testing.T) {
		var entries []map[string]any
		author.answers(t, &entries, "list")
		if entries[0]["installation_count"] != 1.0 {
			t.Errorf("%v installations, want 1", entries[0]["installation_count"])
		}
	})
	t.Run("not there", func(t *testing.T) {
		user.run(t, "install", "pdf@9").want(t, term.ExitFailed, "whetstone: pdf has no version 9; `whetstone history pdf` lists them\n")
		user.run(t, "install", "none").want(t, term.ExitFailed, "whetstone: No entry is named none; `whetstone list` lists them\n")
	})
	t.Run("in a project", func(t *testing.T) {
		project := t.TempDir()
		t.Chdir(project)
		if err := os.Mkdir(".claude", 0o755); err != nil {
			t.Fatal(err)
		}
		user.must(t, "install", "pdf")
		if _, err := os.Stat(filepath.Join(project, ".claude", "skills", "pdf", "SKILL.md")); err != nil {
			t.Error(err)
		}
	})
	t.Run("a file in the way", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "skills")
		write(t, file, "x")
		r := user.run(t, "install", "pdf", "--dir", file)
		if r.code != term.ExitFailed || !strings.Contains(r.stderr, file) || !strings.Contains(r.stderr, "move what is there away, or choose another folder") {
			t.Errorf("%d %q, want the file and what to do", r.code, r.stderr)
		}
	})
	t.Run("name that is no folder", func(t *testing.T) {
		author.push(t, dir, "--name", "..")
		user.run(t, "install", "..").want(t, term.ExitUsage, `".." cannot be the name of a folder on every system`)
	})
}

// TestInstallOverEdits asks on a terminal, and refuses otherwise.
func TestInstallOverEdits(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	m.push(t, skillFolder(t, "pdf", "one"))
	const question = "pdf was edited since it was installed: SKILL.md changed, notes.md added. Replace it and keep a copy? [y/N] "
	edit := func(t *testing.T) {
		m.must(t, "install", "pdf", "--force")
		put(t, m.skills(), "pdf/SKILL.md", "mine")
		put(t, m.skills(), "pdf/notes.md", "mine")
	}
	backups := func(t *testing.T) int {
		found, err := filepath.Glob(filepath.Join(m.skills(), ".whetstone", "backups", "pdf-*", "notes.md"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	m.must(t, "install", "pdf")
	for _, c := range []struct {
		name     string
		stdin    string
		present  bool
		args     []string
		replaced bool
	}{
		{"nobody there", "y\n", false, nil, false},
		{"no", "n\n", true, nil, false},
		{"just enter", "\n", true, nil, false},
		{"no answer", "", true, nil, false},
		{"script", "y\n", true, []string{"--json"}, false},
		{"yes", "y\n", true, nil, true},
		{"Yes", "Yes\n", true, nil, true},
		{"force", "", false, []string{"--force"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			edit(t)
			before := backups(t)
			asked := m
			asked.stdin, asked.present = strings.NewReader(c.stdin), c.present
			r := asked.run(t, append([]string{"install", "pdf"}, c.args...)...)
			if c.present && c.args == nil && !strings.Contains(r.stderr, question) {
				t.Errorf("standard error %q, want the question", r.stderr)
			}
			if c.replaced {
				if r.code != term.ExitOK || m.file(t, "pdf/SKILL.md") == "mine" || backups(t) != before+1 || !strings.Contains(r.stdout, "The previous folder is in "+m.skills()) {
					t.Errorf("got %+v, want it replaced and kept", r)
				}
				return
			}
			r.want(t, term.ExitEdited, "whetstone: pdf was edited since it was installed: SKILL.md changed, notes.md added; --force replaces it and keeps a copy\n")
			if m.file(t, "pdf/SKILL.md") != "mine" || backups(t) != before || r.stdout != "" {
				t.Errorf("got %+v, want it left alone", r)
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		edit(t)
		ctx, cancel := context.WithCancel(t.Context())
		stdin, never := io.Pipe()
		defer never.Close()
		stderr := &watched{word: "[y/N]", seen: make(chan struct{})}
		program := &term.Program{Version: "1.2.3", Stdout: io.Discard, Stderr: stderr, Stdin: stdin, Interactive: true}
		exit := make(chan int)
		go func() { exit <- cli.Run(ctx, program, []string{"install", "pdf"}) }()
		<-stderr.seen
		cancel()
		if code := <-exit; code != term.ExitEdited || m.file(t, "pdf/SKILL.md") != "mine" {
			t.Errorf("exit code %d, want the edits left alone", code)
		}
	})
	t.Run("folder of somebody else", func(t *testing.T) {
		other := newMachine(t)
		put(t, other.skills(), "pdf/SKILL.md", "mine")
		other.run(t, "install", "pdf", "--server", s.url, "--api-key", s.key).want(t, term.ExitEdited, "whetstone: pdf is there already and was not installed by whetstone; --force replaces it and keeps a copy\n")
	})
}

// TestInstallTampered has a proxy that changes the archive.
func TestInstallTampered(t *testing.T) {
	s := startService(t)
	s.loggedIn(t).push(t, skillFolder(t, "pdf", "one"))
	evil := s.behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		body := rec.Body.Bytes()
		if strings.HasSuffix(r.URL.Path, "/download") {
			body[len(body)-1] ^= 1
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(body)
	})
	m := evil.loggedIn(t)
	m.run(t, "install", "pdf").want(t, term.ExitFailed, "The download was changed or truncated on the way: its SHA-256 is not that of the version; nothing was installed")
	if _, err := os.Stat(filepath.Join(m.skills(), "pdf")); err == nil {
		t.Error("it was installed")
	}
}

// TestInstallWithdrawn refuses a version that was withdrawn, with the reason, unless it is
// wanted all the same.
func TestInstallWithdrawn(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	m.push(t, skillFolder(t, "pdf", "one"))
	m.must(t, "install", "pdf")
	m.must(t, "withdraw", "pdf", "1.0.0", "--reason", "It leaks file names.")
	m.run(t, "install", "pdf@1.0.0").want(t, term.ExitFailed, "Version 1.0.0 of pdf was withdrawn: It leaks file names.")
	m.run(t, "install", "pdf").want(t, term.ExitFailed, "pdf has no current version")
	if got := m.must(t, "sync"); !strings.Contains(got, "gone from the registry, kept") {
		t.Errorf("sync says %q", got)
	}
	m.run(t, "install", "pdf@1.0.0", "--withdrawn").want(t, term.ExitOK, "")
	m.run(t, "install", "--frozen", "--force").want(t, term.ExitFailed, "withdrawn")
	m.must(t, "withdraw", "pdf", "1.0.0", "--undo")
	m.must(t, "install", "pdf")
}

// TestInstallOfOthers has public entries of another organisation.
func TestInstallOfOthers(t *testing.T) {
	s := startService(t)
	s.loggedIn(t).push(t, skillFolder(t, "pdf", "of default"), "--visibility", "public")
	s.loggedIn(t).push(t, skillFolder(t, "hidden", "x"), "--visibility", "unlisted")
	memberOf := func(org, plan string) machine {
		s.must(t, "org", "create", org, "--plan", plan)
		member := s
		member.key = s.must(t, "key", "create", "--org", org)["api_key"].(string)
		return member.loggedIn(t)
	}
	m := memberOf("acme", "free")
	m.run(t, "install", "default/pdf").want(t, term.ExitOK, "pdf is installed, but the server has no record of it: ")
	m.run(t, "install", "hidden").want(t, term.ExitFailed, "No entry is named hidden")
	m.run(t, "install", "default/hidden").want(t, term.ExitOK, "hidden is installed")
	owner := s.loggedIn(t)
	owner.must(t, "visibility", "hidden", "org")
	m.run(t, "install", "default/hidden").want(t, term.ExitFailed, "No entry is named default/hidden")
	owner.run(t, "visibility", "hidden", "secret").want(t, term.ExitUsage, "public")
	owner.must(t, "visibility", "hidden", "unlisted")
	m.run(t, "push", skillFolder(t, "mine", "x")).want(t, term.ExitDenied, "pro")
	m.must(t, "history", "pdf")
	m.must(t, "history", "default/pdf")
	m.run(t, "rollback", entryNamed(t, s.loggedIn(t), "pdf")).want(t, term.ExitDenied, "pro")
	m.run(t, "rollback", "pdf").want(t, term.ExitFailed, "No entry is named pdf")
	m.must(t, "status")
	m.must(t, "sync")

	t.Run("viewer", func(t *testing.T) {
		viewer := s
		viewer.key = s.must(t, "key", "create", "--role", "viewer")["api_key"].(string)
		m := viewer.loggedIn(t)
		m.run(t, "install", "pdf").want(t, term.ExitOK, "registry:install")
		m.run(t, "push", skillFolder(t, "pdf", "new")).want(t, term.ExitDenied, "registry:push")
		m.run(t, "rollback", "pdf").want(t, term.ExitDenied, "registry:rollback")
	})
	t.Run("only by its full name", func(t *testing.T) {
		const refusal = "whetstone: pdf is an entry of the organisation default, not of yours; to install it, name it default/pdf\n"
		const question = "Your organisation has no entry named pdf. Install the one of the organisation default? [y/N] "
		id := entryNamed(t, s.loggedIn(t), "pdf")
		for _, c := range []struct {
			name, stdin string
			present     bool
			args        []string
			installed   bool
		}{
			{"nobody there", "y\n", false, []string{"pdf"}, false},
			{"script", "y\n", true, []string{"pdf", "--json"}, false},
			{"force is about folders", "", false, []string{"pdf", "--force"}, false},
			{"a version", "", false, []string{"pdf@1.0.0"}, false},
			{"no", "n\n", true, []string{"pdf"}, false},
			{"yes", "y\n", true, []string{"pdf"}, true},
			{"full name", "", false, []string{"default/pdf"}, true},
			{"full name and version", "", false, []string{"default/pdf@1.0.0"}, true},
			{"id", "", false, []string{id}, true},
		} {
			t.Run(c.name, func(t *testing.T) {
				m := memberOf("org "+c.name, "free")
				m.stdin, m.present = strings.NewReader(c.stdin), c.present
				r := m.run(t, append([]string{"install"}, c.args...)...)
				if asked := strings.Contains(r.stderr, question); asked != (c.present && len(c.args) == 1) {
					t.Errorf("standard error %q: asked is %t", r.stderr, asked)
				}
				_, err := os.Stat(filepath.Join(m.skills(), "pdf"))
				if there := err == nil; there != c.installed {
					t.Errorf("it is installed: %t, want %t", there, c.installed)
				}
				if !c.installed {
					r.want(t, term.ExitFailed, refusal)
				} else if want := "Installed pdf 1.0.0 of default in "; !strings.HasPrefix(r.stdout, want) {
					t.Errorf("standard output %q, want %q", r.stdout, want)
				}
			})
		}
		m.run(t, "install", "nobody/pdf").want(t, term.ExitFailed, "No entry is named nobody/pdf")
	})
	t.Run("several with one name", func(t *testing.T) {
		second := memberOf("second", "pro")
		second.push(t, skillFolder(t, "pdf", "of second"), "--visibility", "public")
		m.run(t, "install", "pdf").want(t, term.ExitFailed, "Several organisations have a public pdf; name one: default/pdf, second/pdf")
		second.must(t, "install", "pdf") // one's own comes first
		if got := second.file(t, "pdf/SKILL.md"); !strings.HasSuffix(got, "of second\n") {
			t.Errorf("SKILL.md %q", got)
		}
		second.must(t, "install", "second/pdf")
		second.must(t, "install", "default/pdf", "--force")
		if got := second.file(t, "pdf/SKILL.md"); !strings.HasSuffix(got, "of default\n") {
			t.Errorf("SKILL.md %q", got)
		}
	})
}

// entryNamed is the id of an entry of the organisation.
func entryNamed(t *testing.T, m machine, name string) string {
	t.Helper()
	var entries []map[string]any
	m.answers(t, &entries, "list", name)
	return entries[0]["id"].(string)
}
