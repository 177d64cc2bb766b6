package web

import (
	stdcmp "cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// drawn is a diff as a text: the line numbers, the sign, and the changed words in brackets.
func drawn(d diff) string {
	var b strings.Builder
	for _, f := range d.Files {
		fmt.Fprintf(&b, "%s +%d -%d\n", f.Name, f.Added, f.Removed)
		for _, l := range f.Lines {
			fmt.Fprintf(&b, "%d %d %s", l.Old, l.New, stdcmp.Or(l.Mark, l.Kind[:2]))
			for _, s := range l.Spans {
				switch s.Kind {
				case compare.Same:
					b.WriteString("|" + s.Text)
				default:
					b.WriteString("|[" + s.Text + "]")
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	t.Parallel()
	const text = "diff a/x b/x\n--- a/x\n+++ b/x\n@@ -5,4 +5,4 @@\n before\n-Read the table.\n+Read the whole table.\n same\n--- no header\n" +
		"@@ -20 +20,2 @@\n same\n+new\n\\ No newline at end of file\n" +
		"Binary files a/y and b/y differ\ndiff a/gone /dev/null\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-all\n"
	want := `x +2 -2
0 0 ga|4 unchanged lines
5 5 sa|before
6 0 -|Read the |table.
0 6 +|Read the |[whole ]|table.
7 7 sa|same
8 0 -|-- no header
0 0 ga|11 unchanged lines
20 20 sa|same
0 21 +|new
 +0 -0
0 0 ga|Binary files a/y and b/y differ
gone +0 -1
1 0 -|all
`
	if wrong := cmp.Diff(want, drawn(newDiff(text))); wrong != "" {
		t.Errorf("(-want +got):\n%s", wrong)
	}
	if d := newDiff(""); len(d.Files) != 0 || d.Cut {
		t.Errorf("nothing is %+v", d)
	}
}

// TestDiffWords: lines that were written anew have no marks, and a change over several lines
// stays on its lines.
func TestDiffWords(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][2]string{
		"t +1 -1\n1 0 -|Completely other words here.\n0 1 +|Nothing in common at all!\n": {
			"Completely other words here.", "Nothing in common at all!",
		},
		"t +2 -2\n1 0 -|Read |[one]| |[table]\n2 0 -|and write |[it]|.\n0 1 +|Read |[two]| |[tables]\n0 2 +|and write |[a file]|.\n": {
			"Read one table\nand write it.", "Read two tables\nand write a file.",
		},
	} {
		if wrong := cmp.Diff(want, drawn(diffOfTexts("t", texts[0], texts[1]))); wrong != "" {
			t.Errorf("(-want +got):\n%s", wrong)
		}
	}
}

// TestLongDiff bounds what a page takes of a diff.
func TestLongDiff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text        string
		lines, size int // at least so many
	}{
		"many lines":   {strings.Repeat("+a\n", 1_000_000), 4_900, 0},
		"long lines":   {strings.Repeat("+"+strings.Repeat("a", 10_000)+"\n", 1_000), 10, 400 << 10},
		"many files":   {strings.Repeat("Files a/x and b/x differ\n", 100_000), 4_900, 0},
		"many changes": {strings.Repeat("-a b c d e f g\n+a b c d e f h\n", 100_000), 4_900, 0},
	} {
		d := newDiff("diff a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n" + c.text)
		lines, size := 0, 0
		for _, f := range d.Files {
			lines += len(f.Lines)
			for _, l := range f.Lines {
				for _, s := range l.Spans {
					size += len(s.Text)
				}
			}
		}
		if !d.Cut || lines < c.lines || lines > 5_000 || size < c.size || size > 512<<10 {
			t.Errorf("%s: %d lines of %d bytes are shown, cut is %t", name, lines, size, d.Cut)
		}
	}
}
