// Package hosttest is the conformance suite of code hosts. It has real
// repositories made with git, and fake servers that serve them as the APIs of
// GitHub and Gitea are documented, with faults that tests inject.
package hosttest

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Repos is a folder of bare repositories OWNER/NAME.git, each with a clone to
// work in.
type Repos struct {
	tb   testing.TB
	Dir  string
	work string
}

// NewRepos returns an empty folder.
func NewRepos(tb testing.TB) *Repos {
	tb.Helper()
	return &Repos{tb: tb, Dir: tb.TempDir(), work: tb.TempDir()}
}

// At returns the repositories that exist below a folder.
func At(tb testing.TB, dir string) *Repos {
	tb.Helper()
	return &Repos{tb: tb, Dir: dir, work: tb.TempDir()}
}

// Bare is the path of a repository.
func (r *Repos) Bare(fullName string) string { return filepath.Join(r.Dir, fullName+".git") }

// A Work is a clone of a repository, on its branch main.
type Work struct {
	repos    *Repos
	FullName string
	Dir      string
}

// Create makes a bare repository with real git and clones it.
func (r *Repos) Create(fullName string) *Work {
	r.tb.Helper()
	r.git(r.Dir, "init", "--quiet", "--bare", "--initial-branch=main", r.Bare(fullName))
	return r.Clone(fullName)
}

// Clone clones an existing repository.
func (r *Repos) Clone(fullName string) *Work {
	r.tb.Helper()
	dir := filepath.Join(r.work, strings.ReplaceAll(fullName, "/", "-"))
	r.git(r.work, "clone", "--quiet", r.Bare(fullName), dir)
	return &Work{repos: r, FullName: fullName, Dir: dir}
}

// Git runs git in a bare repository and returns what it printed.
func (r *Repos) Git(fullName string, args ...string) string {
	r.tb.Helper()
	return r.git(r.Bare(fullName), args...)
}

func (r *Repos) git(dir string, args ...string) string {
	r.tb.Helper()
	out, err := run(dir, args...)
	if err != nil {
		r.tb.Fatal(err)
	}
	return out
}

// run returns what git prints, without the end of the last line.
func run(dir string, args ...string) (string, error) {
	out, err := output(dir, args...)
	return strings.TrimRight(string(out), "\n"), err
}

// output runs git with no settings but its own.
func output(dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(context.Background(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=init.defaultBranch", "GIT_CONFIG_VALUE_0=main")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}

// Git runs git in the clone.
func (w *Work) Git(args ...string) string {
	w.repos.tb.Helper()
	return w.repos.git(w.Dir, args...)
}

// Write writes files into the clone; a value of "-> target" makes a link.
func (w *Work) Write(files map[string]string) {
	w.repos.tb.Helper()
	for name, content := range files {
		path := filepath.Join(w.Dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			w.repos.tb.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(content, "-> "); link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			w.repos.tb.Fatal(err)
		}
	}
}

// Commit writes files, commits everything and returns the commit's id.
func (w *Work) Commit(message string, files map[string]string) string {
	w.repos.tb.Helper()
	w.Write(files)
	w.Git("add", "--all")
	w.Git("commit", "--quiet", "--allow-empty", "--message", message)
	return w.Git("rev-parse", "HEAD")
}

// Push commits files to the branch, pushes it and returns the commit's id.
func (w *Work) Push(message string, files map[string]string) string {
	w.repos.tb.Helper()
	sha := w.Commit(message, files)
	w.Git("push", "--quiet", "origin", "HEAD")
	return sha
}

// PushFolders pushes a commit of a few hundred bytes that expands to
// width^levels empty folders, since every level refers to the one below it width
// times. It returns the commit's id.
func (w *Work) PushFolders(levels, width int) string {
	w.repos.tb.Helper()
	file := filepath.Join(w.repos.work, "tree")
	hashTree := func(content []byte) string {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			w.repos.tb.Fatal(err)
		}
		return w.Git("hash-object", "-t", "tree", "-w", file)
	}
	below := hashTree(nil)
	for range levels {
		raw, err := hex.DecodeString(below)
		if err != nil {
			w.repos.tb.Fatal(err)
		}
		var content []byte
		for n := range width {
			content = fmt.Appendf(content, "40000 %06d\x00%s", n, raw)
		}
		below = hashTree(content)
	}
	sha := w.Git("commit-tree", "-m", "folders", below)
	w.Git("push", "--quiet", "--force", "origin", sha+":refs/heads/main")
	return sha
}

// Skill is a valid SKILL.md.
func Skill(name, body string) string {
	return "---\nname: " + name + "\n" +
		"description: Formats commit messages. Use when a commit message is written or reviewed.\n---\n\n# " + name + "\n\n" + body + "\n"
}
