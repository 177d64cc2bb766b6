package web_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/web"
)

func TestShort(t *testing.T) {
	for text, want := range map[string]string{"": "", "four": "four", "öäüß€": "öäü…", "a b c d": "a b…"} {
		if got := web.Short(4, text); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}

func TestLocalPath(t *testing.T) {
	for path, want := range map[string]string{
		"/skills?q=a#b": "/skills?q=a#b", "": "/", "skills": "/", "//evil.example": "/", "https://evil.example/": "/",
		"/\\evil.example": "/", "/a\nb": "/", "\x00": "/",
	} {
		if got := web.LocalPath(path); got != want {
			t.Errorf("%q leads to %q, want %q", path, got, want)
		}
	}
}

func TestReadDiff(t *testing.T) {
	const text = "diff a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n--- no header\n" +
		"Binary files a/y and b/y differ\ndiff a/gone /dev/null\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-all\n"
	want := []web.DiffFile{
		{Name: "x", Lines: []web.DiffLine{
			{Kind: "hunk", Text: "@@ -1 +1 @@"},
			{Kind: "del", Mark: "-", Text: "old"},
			{Kind: "add", Mark: "+", Text: "new"},
			{Kind: "same", Text: "same"},
			{Kind: "del", Mark: "-", Text: "-- no header"},
		}},
		{Lines: []web.DiffLine{{Kind: "hunk", Text: "Binary files a/y and b/y differ"}}},
		{Name: "gone", Lines: []web.DiffLine{{Kind: "hunk", Text: "@@ -1 +0,0 @@"}, {Kind: "del", Mark: "-", Text: "all"}}},
	}
	got, more := web.ReadDiff(text)
	if diff := cmp.Diff(want, got); diff != "" || more {
		t.Errorf("more is %t (-want +got):\n%s", more, diff)
	}
	if got, more := web.ReadDiff(""); len(got) != 0 || more {
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
		files, more := web.ReadDiff("diff a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n" + c.text)
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

func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"# Title\n\n*hello* `x`", "<h3>Title</h3>\n<p><em>hello</em> <code>x</code></p>\n"},
		{"[a](https://example.org)", `<p><a href="https://example.org" rel="nofollow noreferrer">a</a></p>` + "\n"},
		{"[a](javascript:alert(1))", "<p>a</p>\n"},
		{"![x](https://evil.example/x.png)", "<p></p>\n"},
		{"a | b\n--|--\n1 | 2", "<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n<td>2</td>\n</tr>\n</tbody>\n</table>\n"},
	} {
		got, err := web.Markdown(c.text)
		if diff := cmp.Diff(c.want, string(got)); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", c.text, err, diff)
		}
	}
	for _, hostile := range []string{
		"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", `<a href="javascript:alert(1)">x</a>`, `<p style="x" id="main" class="side">x</p>`,
		"<iframe src=//evil.example></iframe>", "<svg onload=alert(1)>", `<form action="/logout"><button>x</button></form>`, "<style>*{display:none}</style>",
	} {
		got, err := web.Markdown(hostile + "\n\nx " + hostile)
		for _, bad := range []string{"<script", "onerror", "javascript:", "<iframe", "<svg", "<form", "<button", "<style", "style=", "id=", "class=", "<img"} {
			if err != nil || strings.Contains(string(got), bad) {
				t.Errorf("%q leaves %q in %q, %v", hostile, bad, got, err)
			}
		}
	}
}
