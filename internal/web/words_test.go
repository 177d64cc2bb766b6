package web_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// wordy are phrases that read as translated, with what to write instead. They are matched
// without regard to case, at the borders of words.
var wordy = map[string]string{
	"from which on":                         "after this",
	"of now":                                "current",
	"those of before":                       "name them",
	"at night, by itself":                   "nightly",
	"by itself once":                        "automatically",
	"most dollars":                          "spending limit (USD)",
	"is no member":                          "isn't a member",
	"are no members":                        "aren't members",
	"nobody to tell":                        "say who is missing",
	"tells of nobody":                       "aggregate counts only",
	"neither wrote nor chose":               "held-out cases",
	"that a verdict needs":                  "minimum for a verdict",
	"are not kept, or not for you":          "isn't stored, or you can't see it",
	"write down what":                       "type",
	"must not be blank":                     "Enter a name.",
	"is not for you":                        "you can't see it",
	"what was said":                         "name the thing",
	"for who knows":                         "for those who",
	"for who has":                           "for those who have",
	"whoever opens it":                      "the person who opens it",
	"until in":                              "expires in",
	"proves nothing":                        "don't take this page's word for it",
	"any number will do":                    "say which number",
	"costly for their use":                  "high cost, low use",
	"is written on":                         "goes into the next round",
	"take out":                              "remove",
	"json: cannot":                          "name the field and what it takes",
	"the version came from none":            "not from a repository",
	"leave out cases":                       "skip cases",
	"permission to push to":                 "push access to",
	"nothing to show, or suppressed":        "say which",
	"nothing is known of what happened":     "no timeline was reported",
	"none: the connection opens no":         "turned off for this connection",
	"no reason of a failed grade is known":  "no failed grade has a reason yet",
	"decided cases":                         "cases with a result",
	"the words of this session":             "this session's text",
	"is not restricted by the organisation": "say who decides",
}

// TestWords keeps phrases out of the templates and the messages of pages that no native
// speaker would write. A literal that is such a phrase and nothing else is compared with
// the message of another package, to replace it.
func TestWords(t *testing.T) {
	t.Parallel()
	phrases := make([]string, 0, len(wordy))
	for phrase := range wordy {
		phrases = append(phrases, regexp.QuoteMeta(phrase))
	}
	found := regexp.MustCompile(`\b(` + strings.Join(phrases, "|") + `)\b`)
	check := func(file, text string) {
		text = strings.ToLower(strings.Join(strings.Fields(text), " "))
		for _, phrase := range found.FindAllString(text, -1) {
			t.Errorf("%s says %q; write e.g. %q", file, phrase, wordy[phrase])
		}
	}
	for _, pattern := range []string{"templates/*.html", "static/*.js"} {
		for _, file := range filesOf(t, pattern) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			check(file, string(text))
		}
	}
	for _, pattern := range []string{"*.go", "*/*.go"} {
		for _, file := range filesOf(t, pattern) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, err := strconv.Unquote(lit.Value)
					if err == nil && wordy[text] == "" {
						check(file, text)
					}
				}
				return true
			})
		}
	}
}

func filesOf(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	return files
}
