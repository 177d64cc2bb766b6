package main

import (
	"strings"
	"testing"
)

// TestFormat: white space is added only where a browser ignores it.
func TestFormat(t *testing.T) {
	t.Parallel()
	long := strings.TrimSpace(strings.Repeat("long ", 30))
	for name, c := range map[string]struct{ source, want string }{
		"blocks have lines of their own": {
			`<ul><li>a</li><li>b</li></ul>`,
			"<ul>\n\t<li>a</li>\n\t<li>b</li>\n</ul>\n",
		},
		"one block in one branch stays": {
			`<div>{{with .A}}<p>{{.}}</p>{{end}}<p>b</p></div>`,
			"<div>\n\t{{with .A}}<p>{{.}}</p>{{end}}\n\t<p>b</p>\n</div>\n",
		},
		"white space beside blocks is ignored": {
			"<div>\n <p> a </p>\n\n\n<p>b</p></div>",
			"<div>\n\t<p>a</p>\n\n\t<p>b</p>\n</div>\n",
		},
		"a blank shows, and none too": {
			`<p><a>a</a> <a>b</a><a>c</a>, d</p>`,
			"<p><a>a</a> <a>b</a><a>c</a>, d</p>\n",
		},
		"a branch that begins with a blank gets a marker": {
			`<td>{{.A}}{{if .B}} <b>` + long + `</b>{{end}}</td>`,
			"<td>\n\t{{.A}}\n\t{{- if .B}}\n\t\t<b>" + strings.Repeat("long ", 23) + "long\n\t\t\t" +
				strings.TrimSpace(strings.Repeat("long ", 6)) + "\n\t\t</b>\n\t{{end}}\n</td>\n",
		},
		"a marker removes white space that would show": {
			`<p>a{{if .B}}` + strings.Repeat("b", 120) + `{{end}}c</p>`,
			"<p>\n\ta\n\t{{- if .B -}}\n\t\t" + strings.Repeat("b", 120) + "\n\t{{- end}}c\n</p>\n",
		},
		"white space of a text that style sheets preserve": {
			`<td class="text">{{with .A}}<p>a</p>{{end}}{{with .B}}<p>b</p>{{end}}</td>`,
			"<td class=\"text\">\n\t{{- with .A}}<p>a</p>{{end}}\n\t{{- with .B}}<p>b</p>{{end -}}\n</td>\n",
		},
		"the content of pre": {
			"<div><pre class=\"wrap\">a\n  {{.}}</pre></div>",
			"<div>\n\t<pre class=\"wrap\">a\n  {{.}}</pre>\n</div>\n",
		},
		"attributes break before their action": {
			`<input name="` + strings.Repeat("a", 90) + `"{{if .B}} aria-invalid="true" class="b {{.C}}"{{end}}>`,
			`<input name="` + strings.Repeat("a", 90) + "\"\n\t{{if .B}} aria-invalid=\"true\" class=\"b {{.C}}\"{{end}}>\n",
		},
		"templates are separated": {
			"{{define \"a\"}}a{{end}}{{define \"b\"}}<p>b</p>{{end}}",
			"{{define \"a\"}}a{{end}}\n\n{{define \"b\"}}<p>b</p>{{end}}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, source := range []string{c.source, c.want} {
				results, err := format(map[string]string{"a.html": source})
				if err != nil {
					t.Fatal(err)
				}
				if got := results["a.html"]; got != c.want {
					t.Errorf("got\n%s\nwant\n%s", got, c.want)
				}
			}
		})
	}
}

// TestFormatTogether: a template that is used where white space shows gets none.
func TestFormatTogether(t *testing.T) {
	t.Parallel()
	results, err := format(map[string]string{
		"page.html":  `<td class="text">{{template "two" .}}</td>`,
		"parts.html": `{{define "two"}}<p>a</p><p>b</p>{{end}}`,
	})
	if want := "{{define \"two\" -}}\n\t<p>a</p><p>b</p>\n{{- end}}\n"; err != nil || results["parts.html"] != want {
		t.Errorf("got %q, %v, want %q", results["parts.html"], err, want)
	}
}

func TestFormatRefused(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"<p>\n{{if .A}}<a>{{end}}</p>": "a:2: {{end}} in an element that does not end",
		"<p>a</b>":                     "a:1: </b> has no beginning in its branch",
		"<p>":                          "a:1: <p> does not end",
		"a\n{{if":                      "a:2: \"{{if\" does not end",
	} {
		if _, err := format(map[string]string{"a": source}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", source, err, want)
		}
	}
}
