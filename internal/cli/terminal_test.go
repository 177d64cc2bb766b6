package cli_test

import (
	"crypto/rand"
	"strings"
	"testing"
)

// TestProgress: progress is drawn on a terminal only.
func TestProgress(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	dir := skillFolder(t, "pdf", "one")
	noise := make([]byte, 3<<20)
	_, _ = rand.Read(noise) // never fails
	put(t, dir, "data.bin", string(noise))
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"push", dir}, []string{"\rSending pdf  [", " KiB\x1b[K\r"}},
		{[]string{"install", "pdf"}, []string{"\rDownloading pdf  ["}},
		{[]string{"sync"}, nil},
	} {
		watched := m
		watched.present = true
		r := watched.run(t, c.args...)
		for _, want := range c.want {
			if r.code != 0 || !strings.Contains(r.stderr, want) {
				t.Errorf("%q: exit code %d, standard error %q, want %q", c.args, r.code, r.stderr, want)
			}
		}
		if !strings.HasSuffix(r.stderr, "\r\x1b[K") || strings.Contains(r.stdout, "\x1b") {
			t.Errorf("%q: standard error %q, want the line cleared", c.args, r.stderr)
		}
		if r := m.run(t, c.args...); r.stderr != "" {
			t.Errorf("%q: standard error %q without a terminal", c.args, r.stderr)
		}
	}
}

// TestForeignText: untrusted text cannot move the cursor.
func TestForeignText(t *testing.T) {
	m := startService(t).loggedIn(t)
	dir := t.TempDir()
	put(t, dir, "SKILL.md", "---\nname: pdf\ndescription: \"\\e[31mred\\ttab\\nline \\e]0;title\\a "+strings.Repeat("long ", 30)+"\"\n---\n")
	m.must(t, "push", dir, "-m", "\x1b[2Jcleared\nline")
	for _, command := range []string{"list", "history pdf"} {
		got := m.must(t, strings.Fields(command)...)
		if strings.ContainsAny(got, "\x1b\a") || strings.Count(got, "\n") > 2 {
			t.Errorf("%s: %q", command, got)
		}
	}
	if got := m.must(t, "list"); !strings.Contains(got, "[31mred tab line ]0;title long ") || !strings.Contains(got, "...\n") {
		t.Errorf("list %q", got)
	}
}
