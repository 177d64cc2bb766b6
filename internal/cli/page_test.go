package cli_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

func TestWhoami(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	got := m.must(t, "whoami")
	for _, want := range []string{"Server        " + s.url + "\n", "Organisation  default, plan team\n", "Role          owner\n", "registry:push"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	var out struct {
		Server string `json:"server"`
		client.Me
	}
	m.answers(t, &out, "whoami")
	if out.Server != s.url || out.Organisation.Name != "default" || out.Role != "owner" || len(out.Permissions) == 0 {
		t.Errorf("got %+v", out)
	}
	newMachine(t).run(t, "whoami", "--server", s.url).want(t, term.ExitDenied, "run `whetstone login --server "+s.url+"`")
}

// TestOpen prints the addresses of pages.
func TestOpen(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	m.must(t, "push", skillFolder(t, "pdf", "one"))
	var listed []client.ListedEntry
	m.answers(t, &listed, "list")
	for args, want := range map[string]string{
		"open":                 s.url + "/\n",
		"open alerts":          s.url + "/alerts\n",
		"open pdf":             s.url + "/skills/pdf\n",
		"open pdf --json":      "{\n  \"url\": \"" + s.url + "/skills/pdf\"\n}\n",
		"open " + listed[0].ID: s.url + "/registry/" + listed[0].ID + "\n",
	} {
		if got := m.must(t, strings.Fields(args)...); got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
	for args, opened := range map[string]bool{"open alerts": true, "open alerts --print": false, "open alerts --json": false} {
		var pages []string
		p := &term.Program{
			Stdout: io.Discard, Stderr: io.Discard, Stdin: m.stdin,
			Browser: func(_ context.Context, server, page string) error { pages = append(pages, server+" "+page); return nil },
		}
		want := []string{s.url + " " + s.url + "/alerts"}
		if !opened {
			want = nil
		}
		if code := cli.Run(t.Context(), p, strings.Fields(args)); code != term.ExitOK || !slices.Equal(pages, want) {
			t.Errorf("%s: exit code %d, opened %q, want %q", args, code, pages, want)
		}
	}
	m.run(t, "open", "nothing").want(t, term.ExitFailed, "No skill or entry is named nothing")
	if got := newMachine(t).must(t, "open", "skills", "--server", "https://w.example"); got != "https://w.example/skills\n" {
		t.Errorf("without a key: %q", got)
	}
}

func TestDiff(t *testing.T) {
	m := startService(t).loggedIn(t)
	dir := skillFolder(t, "pdf", "one")
	if got := m.must(t, "push", dir); !strings.Contains(got, "/versions/1.0.0\n") || !strings.Contains(got, "\nhttp://127.0.0.1:") {
		t.Errorf("push %q, want the address of the version's page", got)
	}
	m.run(t, "diff", "pdf").want(t, term.ExitFailed, "pdf has only one version; `whetstone diff pdf --dir .` compares a folder with it")
	writeSkill(t, dir, "pdf", "two")
	put(t, dir, "notes.md", "new\x1b[31m\n")
	folder := m.must(t, "diff", "pdf", "--dir", dir)
	m.must(t, "push", dir)
	server := m.must(t, "diff", "pdf")
	for name, got := range map[string]string{"folder": folder, "versions": server} {
		for _, want := range []string{"\n-one\n", "\n+two\n", "+new"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", name, want, got)
			}
		}
		if strings.Contains(got, "\x1b") {
			t.Errorf("%s: an escape sequence in %q", name, got)
		}
	}
	if folder != server {
		t.Errorf("the folder gives\n%sthe versions\n%s", folder, server)
	}
	if got := m.must(t, "diff", "pdf", "1.0.1", "1.0.0"); !strings.Contains(got, "\n-two\n") {
		t.Errorf("backwards: %s", got)
	}
	if got := m.must(t, "diff", "pdf", "--dir", dir); got != "1.0.1 and "+dir+" have the same files.\n" {
		t.Errorf("unchanged: %q", got)
	}
	var out map[string]string
	m.answers(t, &out, "diff", "pdf")
	if out["from"] != "1.0.0" || out["to"] != "1.0.1" || out["diff"] == "" || out["name"] != "pdf" || out["entry_id"] == "" {
		t.Errorf("JSON %v", out)
	}
	t.Setenv("CLICOLOR_FORCE", "1")
	if got := m.must(t, "diff", "pdf"); !strings.Contains(got, "\x1b[32m+two\x1b[0m\n") {
		t.Errorf("colours: %q", got)
	}
	t.Setenv("CLICOLOR_FORCE", "")
	m.run(t, "diff", "pdf", "9.9.9").want(t, term.ExitFailed, "")
	m.run(t, "diff", "pdf", "9.9.9", "--dir", dir).want(t, term.ExitFailed, "pdf has no version 9.9.9")
	m.run(t, "diff", "pdf", "1.0.0", "1.0.1", "--dir", dir).want(t, term.ExitUsage, "with --dir name one version at most")
	m.run(t, "diff", "nothing").want(t, term.ExitFailed, "")
}

func TestUninstall(t *testing.T) {
	m := startService(t).loggedIn(t)
	m.must(t, "push", skillFolder(t, "pdf", "one"))
	m.run(t, "uninstall", "pdf").want(t, term.ExitFailed, "pdf is not installed in "+m.skills())
	if _, err := os.Stat(m.skills()); err == nil {
		t.Error("a failure has made the folder")
	}
	m.must(t, "install", "pdf")
	if got := m.must(t, "uninstall", "pdf"); got != "Uninstalled pdf 1.0.0 from "+m.skills()+"\n" {
		t.Errorf("uninstall %q", got)
	}
	if _, err := os.Stat(filepath.Join(m.skills(), "pdf")); err == nil {
		t.Error("the folder is still there")
	}
	if got := m.must(t, "status"); !strings.HasPrefix(got, "Nothing is installed") {
		t.Errorf("status %q", got)
	}
	m.must(t, "install", "pdf")
	put(t, m.skills(), "pdf/SKILL.md", "edited")
	m.run(t, "uninstall", "pdf").want(t, term.ExitEdited, "pdf was edited since it was installed; --force removes it and keeps a copy")
	var out struct {
		Name, Version, Backup string
		Unneeded              []string `json:"no_longer_required"`
	}
	m.answers(t, &out, "uninstall", "pdf", "--force")
	if kept, err := os.ReadFile(filepath.Join(out.Backup, "SKILL.md")); err != nil || string(kept) != "edited" || out.Unneeded == nil {
		t.Errorf("%+v: the copy is %q, %v", out, kept, err)
	}
	m.run(t, "uninstall", "../pdf").want(t, term.ExitFailed, "../pdf is not installed")
}

// TestUninstallRequired: what another skill needs stays, and what only the removed
// one needed is named.
func TestUninstallRequired(t *testing.T) {
	m := startService(t).loggedIn(t)
	m.must(t, "push", skillFolder(t, "csv", "one"))
	reader := t.TempDir()
	put(t, reader, "SKILL.md", "---\nname: reader\ndescription: Reads.\nmetadata:\n  requires: csv\n---\nRead.\n")
	m.must(t, "push", reader)
	m.must(t, "install", "reader")
	m.run(t, "uninstall", "csv").want(t, term.ExitFailed, "reader requires csv, and the next sync would install it again; --force")
	if got := m.must(t, "uninstall", "reader"); !strings.Contains(got, "csv was installed for it; `whetstone uninstall csv` removes it, too.\n") {
		t.Errorf("uninstall %q", got)
	}
	m.must(t, "uninstall", "csv")
}
