package taskpkg

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBasics restores basic programs, and nothing else, in what was changed of an
// image, and in a changed copy of it.
func TestBasics(t *testing.T) {
	image := map[string]string{
		"usr/bin/": "", "usr/bin/cat": "image", "usr/bin/dash": "image", "usr/bin/sh": "-> dash", "usr/bin/tool": "image",
		"bin": "-> usr/bin", "opt/bin": "-> /usr/bin",
	}
	for _, test := range []struct {
		name          string
		overlay       bool
		changed, want map[string]string
	}{
		{
			"an overlay", true,
			map[string]string{
				"usr/bin/cat": "fake", "usr/bin/grep": "fake", "usr/bin/tool": "mended", "bin": "fake",
				"usr/local/bin/cat": "fake", "usr/local/bin/mine": "new",
			},
			map[string]string{"usr/bin/tool": "mended", "usr/local/bin/mine": "new"},
		},
		{
			"a copy", false,
			map[string]string{
				"usr/bin/cat": "-> /app/x", "usr/bin/dash": "image", "usr/bin/sh": "fake", "usr/bin/tool": "mended",
				"usr/bin/ls": "fake", "bin": "-> /app",
			},
			map[string]string{
				"usr/bin/cat": "image", "usr/bin/dash": "image", "usr/bin/sh": "-> dash", "usr/bin/tool": "mended",
				"bin": "-> usr/bin",
			},
		},
		{"an emptied copy", false, map[string]string{"usr": "fake"}, map[string]string{
			"usr/bin/cat": "image", "usr/bin/dash": "image", "usr/bin/sh": "-> dash",
		}},
	} {
		b := basics{original: makeTree(t, image), written: makeTree(t, test.changed), overlay: test.overlay}
		for _, name := range []string{
			"bin/sh", "usr/bin/sh", "usr/bin/cat", "usr/local/bin/cat", "usr/bin/grep", "usr/bin/ls", "opt/bin/cat",
		} {
			if err := b.restore(name); err != nil {
				t.Fatalf("%s: %s: %v", test.name, name, err)
			}
		}
		got := readTree(t, b.written.Name())
		delete(got, "opt/bin")
		if test.name == "an emptied copy" {
			delete(got, "bin")
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// makeTree makes files, links ("-> target") and folders (a slash at the end).
func makeTree(t *testing.T, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		switch {
		case err != nil || name[len(name)-1] == '/':
		case len(content) > 3 && content[:3] == "-> ":
			err = os.Symlink(content[3:], p)
		default:
			err = os.WriteFile(p, []byte(content), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, p) // both are absolute
		if target, err := os.Readlink(p); err == nil {
			files[name] = "-> " + target
			return nil
		}
		content, err := os.ReadFile(p)
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
