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
