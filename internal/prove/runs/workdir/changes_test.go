package workdir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func changes(t *testing.T, s *Snapshot) (lines []string, files map[string]File) {
	t.Helper()
	all, complete, err := s.Changes()
	if err != nil {
		t.Fatal(err)
	}
	if !complete {
		lines = append(lines, "incomplete")
	}
	files = map[string]File{}
	for _, f := range all {
		lines = append(lines, fmt.Sprintf("%s %s %d", f.Change, f.Path, f.Size))
		files[f.Path] = f
	}
	return lines, files
}

// TestChanges finds what a program added, modified and deleted, and nothing else.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"same": "x\n", "changed": "one\ntwo\n", "gone": "x", "binary": "a\x00b", "deep/er/file": "x"})
	s, err := Take(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{
		"changed": "one\n2\n", "new": "hello\n", "binary": "a\x00bc", ".git/objects/1": "x", "long": strings.Repeat("y", maxText+1),
	})
	if err := os.Remove(filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	lines, files := changes(t, s)
	want := []string{"modified binary 4", "modified changed 6", "deleted gone 0", fmt.Sprintf("added long %d", maxText+1), "added new 6"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	sum := sha256.Sum256([]byte("hello\n"))
	if f := files["new"]; *f.Text != "hello\n" || f.Truncated || f.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("new file: %+v", f)
	}
	if f := files["changed"]; !strings.Contains(f.Diff, "-two\n+2\n") {
		t.Errorf("diff %q", f.Diff)
	}
	if f := files["binary"]; f.Text != nil || f.SHA256 == "" {
		t.Errorf("binary file: %+v", f)
	}
	if f := files["long"]; len(*f.Text) != maxText || !f.Truncated {
		t.Errorf("long file: %d bytes, truncated %v", len(*f.Text), f.Truncated)
	}
}

// TestOverlay compares with the files below.
func TestOverlay(t *testing.T) {
	upper, lower := t.TempDir(), t.TempDir()
	write(t, lower, map[string]string{"app/a": "one\n", "app/b": "x"})
	s, err := Take(upper, lower)
	if err != nil {
		t.Fatal(err)
	}
	write(t, upper, map[string]string{"app/a": "two\n", "app/c": "new", "app/b": "x"})
	lines, files := changes(t, s)
	if diff := cmp.Diff([]string{"modified app/a 4", "added app/c 3"}, lines); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if !strings.Contains(files["app/a"].Diff, "-one\n+two\n") {
		t.Errorf("diff %q", files["app/a"].Diff)
	}
}

// TestManyChanges keeps to its limits.
func TestManyChanges(t *testing.T) {
	dir := t.TempDir()
	s, err := Take(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	many := map[string]string{}
	for i := range maxChanged + 10 {
		many[fmt.Sprintf("f%04d", i)] = strings.Repeat("z", 1000)
	}
	write(t, dir, many)
	lines, files := changes(t, s)
	if len(files) != maxChanged || lines[0] != "incomplete" {
		t.Errorf("%d files, %s", len(files), lines[0])
	}
	bytes := 0
	for _, f := range files {
		if f.Text != nil {
			bytes += len(*f.Text)
		}
	}
	if bytes > maxTexts {
		t.Errorf("%d bytes of texts", bytes)
	}
}

func TestMerge(t *testing.T) {
	first := []File{{Path: "a", Change: Added}, {Path: "b", Change: Added}, {Path: "c", Change: Deleted}, {Path: "d", Change: Modified}}
	second := []File{{Path: "a", Change: Modified, Size: 2}, {Path: "b", Change: Deleted}, {Path: "c", Change: Added}, {Path: "d", Change: Deleted}, {Path: "e", Change: Added}}
	want := []File{
		{Path: "a", Change: Added, Size: 2}, {Path: "c", Change: Modified}, {Path: "d", Change: Deleted}, {Path: "e", Change: Added},
	}
	if diff := cmp.Diff(want, Merge(first, second)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}
