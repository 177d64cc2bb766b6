package web

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadDiff(t *testing.T) {
	const text = "diff a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n--- no header\n" +
		"Binary files a/y and b/y differ\ndiff a/gone /dev/null\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-all\n"
	want := []diffFile{
		{Name: "x", Lines: []diffLine{
			{Kind: "hunk", Text: "@@ -1 +1 @@"},
			{Kind: "del", Mark: "-", Text: "old"},
			{Kind: "add", Mark: "+", Text: "new"},
			{Kind: "same", Text: "same"},
			{Kind: "del", Mark: "-", Text: "-- no header"},
		}},
		{Lines: []diffLine{{Kind: "hunk", Text: "Binary files a/y and b/y differ"}}},
		{Name: "gone", Lines: []diffLine{{Kind: "hunk", Text: "@@ -1 +0,0 @@"}, {Kind: "del", Mark: "-", Text: "all"}}},
	}
	got, more := readDiff(text)
	if wrong := cmp.Diff(want, got); wrong != "" || more {
		t.Errorf("more is %t (-want +got):\n%s", more, wrong)
	}
	if got, more := readDiff(""); len(got) != 0 || more {
		t.Errorf("nothing is %+v", got)
	}
}

// TestReadLongDiff bounds what a page takes of a diff.
func TestReadLongDiff(t *testing.T) {
	for name, c := range map[string]struct {
		text        string
		lines, size int // at least so many
	}{
		"many lines": {strings.Repeat("+a\n", 1_000_000), 4_900, 0},
		"long lines": {strings.Repeat("+"+strings.Repeat("a", 10_000)+"\n", 1_000), 10, 400 << 10},
		"many files": {strings.Repeat("Files a/x and b/x differ\n", 100_000), 4_900, 0},
	} {
		files, more := readDiff("diff a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n" + c.text)
		lines, size := 0, 0
		for _, f := range files {
			lines += len(f.Lines)
			for _, l := range f.Lines {
				size += len(l.Text)
			}
		}
		if !more || lines < c.lines || lines > 5_000 || size < c.size || size > 512<<10 {
			t.Errorf("%s: %d lines of %d bytes are shown, more is %t", name, lines, size, more)
		}
	}
}
