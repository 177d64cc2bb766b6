package skillpkg_test

import (
	"errors"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// FuzzIgnore: a .skillignore is refused, or leaves out what a plain reading of
// its patterns leaves out.
func FuzzIgnore(f *testing.F) {
	for _, seed := range [][2]string{
		{"*.txt\n!a.txt\n", "b.txt"},
		{"a/**/b\n", "a/x/y/b"},
		{"/x\n", "y/x"},
		{"x/\n", "x"},
		{"**\n", "a/b"},
		{"[!a]*\n", "b"},
		{"# c\n\n  \n", "a"},
		{"!.env\n", ".env"},
		{"a//b", "a"},
		{"[", "a"},
		{"**/**/**/**/a", "b/c/d/e/a"},
		{"node_modules", "a/node_modules/b"},
		{"\\#x", "#x"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		if path.Clean(name) != name || strings.HasPrefix(name, "/") || name == "." || strings.HasPrefix(name, "..") ||
			len(text) > 4096 || len(name) > 200 {
			return
		}
		out, err := skillpkg.Ignored(fstest.MapFS{".skillignore": {Data: []byte(text)}}, name)
		if err != nil {
			if e, ok := errors.AsType[*skillpkg.Error](err); !ok || e.Code != skillpkg.CodeIgnoreFile {
				t.Fatalf("got %v, want an *Error about the file", err)
			}
			return
		}
		if want := plainlyIgnored(text, name); out != want {
			t.Errorf("%q leaves out %q: %t, want %t", text, name, out, want)
		}
	})
}

// plainlyIgnored reads patterns the obvious and slow way.
func plainlyIgnored(text, name string) bool {
	lines := append([]string{".git", "node_modules", ".env*", ".DS_Store", "__pycache__", "__MACOSX"}, strings.Split(text, "\n")...)
	out := false
	for _, line := range lines {
		pattern := strings.TrimRight(line, " \t\r")
		if pattern == "" || pattern[0] == '#' {
			continue
		}
		pattern, include := strings.CutPrefix(pattern, "!")
		pattern, folder := strings.CutSuffix(pattern, "/")
		if folder {
			continue // the name is a file's
		}
		if !strings.Contains(pattern, "/") {
			pattern = "**/" + pattern
		}
		pattern = strings.ReplaceAll(pattern, "[!", "[^")
		if covers(strings.Split(strings.TrimPrefix(pattern, "/"), "/"), strings.Split(name, "/")) {
			out = !include
		}
	}
	return out
}

func covers(pattern, name []string) bool {
	if len(pattern) == 0 || len(name) == 0 {
		return len(pattern) == len(name)
	}
	if pattern[0] == "**" {
		return covers(pattern, name[1:]) || len(pattern) == 1 && len(name) == 1 || len(pattern) > 1 && covers(pattern[1:], name)
	}
	ok, err := path.Match(pattern[0], name[0])
	return err == nil && ok && covers(pattern[1:], name[1:])
}
