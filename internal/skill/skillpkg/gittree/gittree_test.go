package gittree_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

type file struct {
	path, content string
	mode          fs.FileMode
}

func pack(t *testing.T, files ...file) *skillpkg.Package {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.path}
		h.SetMode(f.mode)
		out, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(f.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := skillpkg.Read(t.Context(), &b, skillpkg.StoredLimits())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestOf compares with git itself. The names are those that sort differently as
// files and as folders.
func TestOf(t *testing.T) {
	t.Parallel()
	files := []file{
		{"SKILL.md", "---\nname: a\ndescription: b\n---\n", 0o644},
		{"a/b/c/d.txt", "deep", 0o644},
		{"a.txt", "x", 0o644},
		{"a-b", "y", 0o755},
		{"lib/x", "", 0o644},
		{"lib.x", "same", 0o644},
		{"lib0", "same", 0o755},
		{"ä/ü", "z", 0o644},
		{"a/b.txt", "x", 0o644},
	}
	got, err := gittree.Of(pack(t, files...))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, f.mode); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("init", "--quiet")
	run("add", "--all")
	if want := run("write-tree"); got.Root.String() != want {
		t.Errorf("tree %s, want %s", got.Root, want)
	}
	if len(got.Trees) != 6 || len(got.Files) != 7 {
		t.Errorf("%d trees and %d files", len(got.Trees), len(got.Files))
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	skill := file{"SKILL.md", "---\nname: a\ndescription: b\n---\n", 0o644}
	for path, want := range map[string]bool{
		".git": false, ".git/config": false, "x/.GIT/hooks/post-checkout": false, "git~1": false, "x/GIT~1/y": false, ".git::$INDEX_ALLOCATION": false,
		".g\u200cit": false, ".git\ufeff/config": false, ".gitmodules": false, "x/.GitModules": false, "gitmod~1": false,
		".gitignore": true, ".gitattributes": true, ".github/x": true, "git": true, "x.git/y": true, "agit~1": true,
	} {
		if got := gittree.Fits(pack(t, skill, file{path, "x", 0o644})); got != want {
			t.Errorf("%q: %t, want %t", path, got, want)
		}
	}
}
