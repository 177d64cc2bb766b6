package transcripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A repository is one made with git. Its clock stands still between two commands.
type repository struct {
	*testing.T
	dir string
	now time.Time
}

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, t.TempDir(), start.Add(-time.Hour)}
	r.git("init", "--quiet", "--initial-branch=main")
	r.commit("before")
	r.now = start
	return r
}

func (r *repository) git(args ...string) string {
	r.Helper()
	cmd := exec.CommandContext(r.Context(), "git", args...)
	cmd.Dir = r.dir
	stamp := r.now.Format(time.RFC3339)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE="+stamp, "GIT_COMMITTER_DATE="+stamp, "GIT_AUTHOR_NAME=Ada L.", "GIT_AUTHOR_EMAIL=a@b.c",
		"GIT_COMMITTER_NAME=Ada L.", "GIT_COMMITTER_EMAIL=a@b.c", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit adds a file, and returns the abbreviated hash.
func (r *repository) commit(name string) string {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(name), 0o600); err != nil {
		r.Fatal(err)
	}
	r.git("add", name)
	r.git("commit", "--quiet", "-m", name)
	return r.git("rev-parse", "--short", "HEAD")
}

// made is a commit of a session that went on for an hour.
func made(hash string) localCommit {
	return localCommit{Hash: hash, From: start, To: start.Add(time.Second), Ended: start.Add(time.Hour)}
}

// TestFates: what people do to a commit after the session decides; what cannot be known
// is unknown.
func TestFates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		later time.Duration
		do    func(r *repository, hash string)
		want  fate
	}{
		"kept":                    {2 * time.Hour, func(r *repository, _ string) { r.commit("after") }, fateSurvived},
		"packed":                  {2 * time.Hour, func(r *repository, _ string) { r.git("gc", "--quiet") }, fateSurvived},
		"reverted":                {2 * time.Hour, func(r *repository, _ string) { r.git("revert", "--no-edit", "HEAD") }, fateLost},
		"reverted by the agent":   {time.Minute, func(r *repository, _ string) { r.git("revert", "--no-edit", "HEAD") }, fateUnknown},
		"amended":                 {2 * time.Hour, func(r *repository, _ string) { r.git("commit", "--amend", "-m", "better") }, fateLost},
		"amended by the agent":    {time.Minute, func(r *repository, _ string) { r.git("commit", "--amend", "-m", "better") }, fateUnknown},
		"reset":                   {2 * time.Hour, func(r *repository, _ string) { r.git("reset", "--hard", "HEAD~1") }, fateLost},
		"reset to something else": {2 * time.Hour, resetElsewhere, fateUnknown},
		"squashed":                {2 * time.Hour, squash, fateUnknown},
		"merged":                  {2 * time.Hour, merge, fateSurvived},
		"on another branch": {2 * time.Hour, func(r *repository, _ string) {
			r.git("checkout", "--quiet", "--detach", "HEAD~1")
			r.git("branch", "-M", "main", "old")
		}, fateUnknown},
		"current branch is the old one": {2 * time.Hour, func(r *repository, _ string) { r.git("checkout", "--quiet", "-b", "old", "HEAD~1") }, fateSurvived},
		"reverted and restored": {2 * time.Hour, func(r *repository, _ string) {
			r.git("revert", "--no-edit", "HEAD")
			r.now = r.now.Add(time.Hour)
			r.git("revert", "--no-edit", "HEAD")
		}, fateSurvived},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			hash := r.commit("work")
			r.now = start.Add(c.later)
			c.do(r, hash)
			sub := filepath.Join(r.dir, "sub")
			if err := os.Mkdir(sub, 0o700); err != nil {
				t.Fatal(err)
			}
			got := fatesOf(t.Context(), sub, []localCommit{made(hash), made("0123456")})
			if want := []fate{c.want, fateUnknown}; !slices.Equal(got, want) {
				t.Errorf("fates %v, want %v", got, want)
			}
		})
	}
}

// resetElsewhere makes the branch follow another one, e.g. after a squash.
func resetElsewhere(r *repository, _ string) {
	r.git("checkout", "--quiet", "-b", "other", "HEAD~1")
	r.commit("other")
	r.git("checkout", "--quiet", "main")
	r.git("reset", "--quiet", "--hard", "other")
}

// squash merges what the session did as another commit, and deletes its branch.
func squash(r *repository, _ string) {
	r.git("checkout", "--quiet", "-b", "work")
	r.git("branch", "--force", "main", "HEAD~1")
	r.git("checkout", "--quiet", "main")
	r.git("merge", "--squash", "--quiet", "work")
	r.git("commit", "--quiet", "-m", "squashed")
	r.git("branch", "-D", "work")
}

// merge merges the branch that the session worked on.
func merge(r *repository, _ string) {
	r.git("checkout", "--quiet", "-b", "work")
	r.git("branch", "--force", "main", "HEAD~1")
	r.git("checkout", "--quiet", "main")
	r.commit("meanwhile")
	r.git("merge", "--quiet", "--no-edit", "work")
	r.git("branch", "-d", "work")
}

// TestLinkedTree: agents often work in a linked working tree.
func TestLinkedTree(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	tree := filepath.Join(t.TempDir(), "tree")
	r.git("worktree", "add", "--quiet", "-b", "work", tree)
	main := r.dir
	r.dir = tree
	hash := r.commit("work")
	r.dir = main
	if got := fatesOf(t.Context(), tree, []localCommit{made(hash)}); got[0] != fateSurvived {
		t.Errorf("in the tree: %v", got)
	}
	if got := fatesOf(t.Context(), main, []localCommit{made(hash)}); got[0] != fateUnknown {
		t.Errorf("before it is merged: %v", got)
	}
}

// TestUnreadableRepository: a folder without a repository, and repositories that are broken or
// hostile, tell nothing.
func TestUnreadableRepository(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(dir string) error{
		"none":       func(dir string) error { return os.RemoveAll(filepath.Join(dir, ".git")) },
		"no HEAD":    func(dir string) error { return os.Remove(filepath.Join(dir, ".git", "HEAD")) },
		"no objects": func(dir string) error { return os.RemoveAll(filepath.Join(dir, ".git", "objects")) },
		"no config": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".git", "config"), []byte("[x\n"), 0o600)
		},
		"link": func(dir string) error {
			if err := os.Rename(filepath.Join(dir, ".git"), filepath.Join(dir, "git")); err != nil {
				return err
			}
			return os.Symlink("git", filepath.Join(dir, ".git"))
		},
	} {
		r := newRepository(t)
		hash := r.commit("work")
		if err := harm(r.dir); err != nil {
			t.Fatal(err)
		}
		if got := fatesOf(t.Context(), r.dir, []localCommit{made(hash)}); got[0] != fateUnknown {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := fatesOf(t.Context(), "/does/not/exist", []localCommit{made("0123456")}); got[0] != fateUnknown {
		t.Errorf("no folder: %v", got)
	}
}

// TestRunsNothing: a repository names programs for git to run, and none is.
func TestRunsNothing(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	hash := r.commit("work")
	ran := filepath.Join(t.TempDir(), "ran")
	program := filepath.Join(r.dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"core.fsmonitor", "core.sshCommand", "core.pager", "gpg.program", "diff.external", "core.editor", "core.hooksPath"} {
		r.git("config", key, program)
	}
	r.git("config", "log.showSignature", "true")
	_ = os.Remove(ran) // git itself ran it
	if got := fatesOf(t.Context(), r.dir, []localCommit{made(hash)}); got[0] != fateSurvived {
		t.Errorf("fates %v", got)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the repository was run")
	}
}
