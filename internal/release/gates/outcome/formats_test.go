package outcome_test

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
)

// alive is what a code host makes something of in the text of a comment: mentions, which
// notify people, references to issues, which are shown there, and links.
var alive = regexp.MustCompile(`(?i)(^|\W)@[a-z0-9]|#[0-9]|\bGH-[0-9]|://|\bwww\.|[a-z0-9]@[a-z0-9]`)

// TestHostileNames writes a gate whose texts try to be more than text: nobody is notified,
// and nothing is formatted, linked, fetched or added to the table.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	render := goldmark.New(goldmark.WithExtensions(extension.GFM))
	for _, text := range []string{
		"@acme/security please look", "mail eve@evil.example", "&#64;acme/security", "&commat;acme", `\@acme`,
		"fixes #1", "acme/pdf#1", "&#35;1", "GH-1", "gh-1",
		"https://evil.example", "www.evil.example", "http&colon;//evil.example", "[ok](https://evil.example)", `\[ok](https://evil.example)`,
		"![](https://evil.example/p.png)", "<https://evil.example>", "[ok]: https://evil.example", "[ok][1]",
		"<img src=x onerror=alert(1)>", "&lt;script&gt;alert(1)&lt;/script&gt;", "<!-- whetstone -->", "<details><summary>x",
		"| 3 of 3 | 3 of 3 |", `\| 3 of 3 |`, "a\n\n# Pass: all is well", "a\r\r# Pass: all is well", "a\r\n| x | y |", "```\ncode", "~~~",
		"**Pass**", "~~no~~", "__x__", `\*\*x\*\*`, "$`x`$", "- [x] done", "1. one", "> quote", "---", "===",
	} {
		g := api.Gate{Status: "decided", Reason: "It says " + text, Suites: []api.GateSuite{{
			SuiteID: "s", Cases: 1, Results: []api.GateCase{{Case: "case-1", Name: text}}, Worse: []string{"case-1"},
			Changes: []api.GateSuiteChange{},
		}}}
		for _, suites := range [][]api.GateSuite{g.Suites, nil} { // without cases the reason is in the title
			g.Suites = suites
			var b, out strings.Builder
			if err := outcome.Markdown(&b, g, func(string, string) string { return "/runs/1" }); err != nil {
				t.Fatal(err)
			}
			if err := render.Convert([]byte(b.String()), &out); err != nil {
				t.Fatal(err)
			}
			page := strings.ReplaceAll(out.String(), `<a href="/runs/1">`, "<ours>")
			for _, tag := range []string{"<a ", "<img", "<script", "<h1", "<h2", "<li", "<del", "<em", "<code", "<pre", "<blockquote", "<hr", "<input", "<!--"} {
				if strings.Contains(page, tag) {
					t.Errorf("%q becomes %s: %s", text, tag, page)
				}
			}
			if n := strings.Count(page, "<strong>"); n != 1 {
				t.Errorf("%q: %d bold texts: %s", text, n, page)
			}
			if n, want := strings.Count(page, "<td>"), 5*len(suites); n != want {
				t.Errorf("%q: %d cells, want %d: %s", text, n, want, page)
			}
			shown := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " "))
			if found := alive.FindString(shown); found != "" {
				t.Errorf("%q is alive: %q in %s", text, found, shown)
			}
		}
	}
}
