package web_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/overview"
	"github.com/whetstone-dev/whetstone/internal/web"
)

func share(f float64) *float64 { return &f }

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{0.875, "88 %"}, {share(0.5), "50 %"}, {(*float64)(nil), "–"}, {1.0, "100 %"}, {0.996, "99.6 %"}, {0.004, "0.4 %"}, {0.0, "0 %"},
	} {
		if got := strings.ReplaceAll(web.Percent(c.value), "\u202f", " "); got != c.want {
			t.Errorf("percent of %v is %q, want %q", c.value, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[int64]string{0: "0", 999: "999", 1000: "1 000", -1234567: "-1 234 567"} {
		got, err := web.Number(value)
		if got = strings.ReplaceAll(got, "\u202f", " "); err != nil || got != want {
			t.Errorf("%d is %q, %v, want %q", value, got, err, want)
		}
	}
	if _, err := web.Number("1"); err == nil {
		t.Error("a text is a number")
	}
}

func TestPoints(t *testing.T) {
	for want, change := range map[string]*float64{"–": nil, "▲ +12": share(0.12), "▼ -7": share(-0.07)} {
		if got := web.Points(change); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

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

func TestSpark(t *testing.T) {
	if got := web.NewSpark([]*float64{nil, nil}); got.Line != "" || got.Label != "no data" {
		t.Errorf("nothing known is drawn as %+v", got)
	}
	got := web.NewSpark([]*float64{share(0), nil, share(1)})
	if got.Line != "M2.0 20.0L94.0 2.0" || got.Low {
		t.Errorf("a rise is drawn as %+v", got)
	}
	if got := web.NewSpark([]*float64{share(0.25)}); got.Line != "M2.0 15.5h.1" || !got.Low {
		t.Errorf("one day is drawn as %+v", got)
	}
}

func TestChart(t *testing.T) {
	days := []overview.Day{{Date: "2026-01-01", Sessions: 4, Graded: 4, PassRate: share(1)}, {Date: "2026-01-02"}, {Date: "2026-01-03", Sessions: 2, Graded: 4, PassRate: share(0)}}
	c := web.NewChart("pdf", days, []web.Mark{{Date: "2026-01-02", Label: "1.0.0"}, {Date: "2025-01-01", Label: "too old"}})
	label := strings.ReplaceAll(c.Label, "\u202f", " ")
	if want := "7-day pass rate from 2026-01-01 to 2026-01-03: it went from 100 % to 50 %. 1.0.0 became current on 2026-01-02."; label != want {
		t.Errorf("the chart says %q, want %q", label, want)
	}
	if len(c.Dots) != 2 || len(c.Bars) != 2 || len(c.Marks) != 1 || len(c.Days) != 3 || c.MostSessions != 4 {
		t.Errorf("drawn are %d dots, %d bars, %d marks, %d days", len(c.Dots), len(c.Bars), len(c.Marks), len(c.Days))
	}
	if c.Bars[0].Height != 2*c.Bars[1].Height {
		t.Errorf("4 sessions are %v high, 2 are %v", c.Bars[0].Height, c.Bars[1].Height)
	}
	if none := web.NewChart("pdf", days[1:2], nil); none.Known || none.Line != "" ||
		none.Label != "No graded sessions from 2026-01-02 to 2026-01-02." {
		t.Errorf("nothing known is drawn as %+v", none)
	}
	web.NewChart("pdf", nil, nil) // no days at all
}
