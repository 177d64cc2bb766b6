package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
)

// FuzzRefs: whatever is in a repository's own files, reading it ends in an error
// or in branches and tags with commits.
func FuzzRefs(f *testing.F) {
	const sha = "0123456789012345678901234567890123456789"
	f.Add("ref: refs/heads/main\n", "# pack-refs with: peeled fully-peeled sorted\n"+sha+" refs/heads/main\n"+sha+" refs/tags/v1\n^"+sha+"\n", sha+"\n", "[core]\n\tbare = true\n")
	f.Add(sha, "x y z", "ref: refs/heads/main", "[core")
	f.Add("ref: refs/heads/../../x", sha+" refs/heads/"+strings.Repeat("a/", 500)+"b", "", "[include]\n\tpath = /etc/passwd\n")
	f.Fuzz(func(t *testing.T, head, packed, loose, config string) {
		dir := t.TempDir()
		if _, err := git.Init(dir, "acme/skills"); err != nil {
			t.Fatal(err)
		}
		bare := filepath.Join(dir, "acme", "skills.git")
		for name, text := range map[string]string{"HEAD": head, "packed-refs": packed, "refs/heads/main": loose, "config": config} {
			if err := os.WriteFile(filepath.Join(bare, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h, err := git.New(git.Options{Dir: dir, Program: "/bin/true", URL: "http://127.0.0.1:1", Secret: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		at := host.Repo{Installation: host.Installation{ID: 1, Account: "acme"}, FullName: "acme/skills"}
		refs, err := h.Refs(t.Context(), at)
		if err != nil {
			return
		}
		for name, commit := range refs.Tags {
			if !host.IsSHA(commit) || name == "" {
				t.Errorf("the tag %q stands for %q", name, commit)
			}
		}
		if _, err := h.Resolve(t.Context(), at, "main"); err == nil {
			t.Error("a commit was found that nobody made")
		}
	})
}

// FuzzHookPush: what git hands to its hook becomes refs, line by line.
func FuzzHookPush(f *testing.F) {
	f.Add("a b refs/heads/main\n")
	f.Add("a b\nc d e f\n\n a  b  c ")
	f.Add("\x00 \xff \u2028\n")
	f.Fuzz(func(t *testing.T, lines string) {
		dir := t.TempDir()
		if _, err := git.Init(dir, "acme/skills"); err != nil {
			t.Fatal(err)
		}
		p, err := git.HookPush(git.HookConfigPath(dir), filepath.Join(dir, "acme", "skills.git"), lines)
		if err != nil || p.Repository.FullName != "acme/skills" || len(p.Refs) > strings.Count(lines, "\n")+1 {
			t.Fatalf("%+v, %v", p, err)
		}
		for _, r := range p.Refs {
			if r.Ref == "" || strings.ContainsAny(r.Ref+r.Before+r.After, " \t\n") {
				t.Errorf("bad ref %+v", r)
			}
		}
	})
}
