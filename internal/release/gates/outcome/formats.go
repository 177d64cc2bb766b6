package outcome

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
)

// Title says the verdict in a line, e.g. "block: better on 3, worse on 1 of 24
// cases".
func Title(g api.Gate) string {
	better, worse, cases := 0, 0, 0
	for _, s := range g.Suites {
		better, worse, cases = better+len(s.Better), worse+len(s.Worse), cases+s.Cases
	}
	said := verdict(g)
	if g.Attempt > 1 {
		said += fmt.Sprintf(" (attempt %d)", g.Attempt)
	}
	if cases == 0 && g.Reason != "" {
		return said + ": " + g.Reason
	}
	return fmt.Sprintf("%s: better on %d, worse on %d of %d cases", said, better, worse, cases)
}

// verdict is that of the gate or, while it has none, its status.
func verdict(g api.Gate) string {
	if g.Verdict == nil {
		return g.Status
	}
	return *g.Verdict
}

// escape keeps what people wrote from being read as Markdown, and from what code hosts make
// of plain text: mentions, references and links, which a space without a width ends. That is
// written where the text has been unescaped, too, as of "&#64;acme/team". Names of cases come
// from repositories of anyone, and end up in comments that the product's own account writes.
var escape = strings.NewReplacer(
	`\`, `\\`, `|`, `\|`, "`", "'", "\n", " ", "\r", " ", "<", "&lt;", "&", "&amp;", "[", `\[`, "]", `\]`, "*", `\*`, "_",
	`\_`, "~", `\~`,
	"@", "@\u200b", "#", "\\#\u200b", "://", ":\u200b//", "www.", "www\u200b.", "WWW.", "WWW\u200b.", "GH-", "GH\u200b-",
	"gh-", "gh\u200b-",
)

// Escape returns what a person wrote as plain Markdown.
func Escape(s string) string { return escape.Replace(s) }

// Worst names the cases that got worse, "" if there are none.
func Worst(g api.Gate) string {
	var names []string
	for _, s := range g.Suites {
		for _, c := range s.Results {
			if slices.Contains(s.Worse, c.Case) {
				names = append(names, cmp.Or(c.Name, c.Case))
			}
		}
	}
	return strings.Join(names, ", ")
}

// Markdown writes a gate for a pull request: the verdict, and only what changed. A
// link, if not nil, returns the page of a case of a suite, "" if it has none. Cases that didn't
// change are only counted: a comment has a maximum length, and nobody reads 200 equal rows.
func Markdown(w io.Writer, g api.Gate, link func(suiteID, caseID string) string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n%s\n", escape.Replace(Title(g)), escape.Replace(g.Reason))
	for _, s := range g.Suites {
		if s.Score != nil {
			fmt.Fprintf(&b, "\nScore: %s.\n", s.Score.Text())
		}
		for _, e := range []struct {
			of      *api.GateEffort
			against string
		}{{s.Effort, "the current version"}, {s.NoSkillEffort, "no skill"}} {
			if text := e.of.Text(); text != "" {
				fmt.Fprintf(&b, "\nEffort, as a multiple of that of %s: %s.\n", e.against, text)
			}
		}
		if len(s.Results) > 0 {
			fmt.Fprintf(&b, "\n| Case | Before | Now | Again | p |\n|---|---|---|---|---|\n")
		}
		for _, c := range s.Results {
			again := ""
			if c.FreshNew != nil {
				again = fmt.Sprintf("%s before, %s now", share(*c.FreshCurrent), share(*c.FreshNew))
			}
			name := escape.Replace(cmp.Or(c.Name, c.Case))
			if link != nil {
				if url := link(s.SuiteID, c.Case); url != "" {
					name = "[" + name + "](" + url + ")"
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, share(c.Current), share(c.New), again, fisher(s, c.Case))
		}
		fmt.Fprintf(&b, "\n%d unchanged, %d without a verdict", s.Unchanged, s.Errors)
		if s.SignTestP != nil {
			fmt.Fprintf(&b, "; sign test p = %.2g", *s.SignTestP)
		}
		b.WriteString(".\n")
		if len(s.Changes) > 0 {
			b.WriteString("\nThe suite was changed since the last gate:\n\n")
		}
		for _, c := range s.Changes {
			fmt.Fprintf(&b, "- %s, %s: %s\n", escape.Replace(c.Who()), c.When(), escape.Replace(c.What()))
		}
	}
	for _, f := range g.Floors {
		fmt.Fprintf(&b, "\n%s: %s, wanted %s.\n", f.Name, f.Got, f.Want)
	}
	fmt.Fprintf(&b, "\nAt most %.0f %% of harmless versions are blocked.\n", 100*g.FalseBlockRate)
	_, err := io.WriteString(w, b.String())
	return err
}

// share writes e.g. "2 of 3".
func share(t api.GateTrials) string { return fmt.Sprintf("%d of %d", t.Passed, t.Tried) }

// fisher is the p-value of a case that was tried again, else "".
func fisher(s api.GateSuite, id string) string {
	for _, c := range s.Confirmed {
		if c.Case == id {
			return fmt.Sprintf("%.2g", c.FisherP)
		}
	}
	return ""
}

// The shape is that of Ant's JUnit task, which CI systems agree on; there is no standard.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitMessage `xml:"failure"`
	Error   *junitMessage `xml:"error"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

// JUnit writes a gate as a test report: the verdict is a test, and so is every case
// that changed. A case fails only in a gate that blocks. Otherwise a CI job would be red
// because of a version that passed.
func JUnit(w io.Writer, g api.Gate) error {
	decided := junitSuite{Name: "gate", Tests: 1, Cases: []junitCase{{Class: "gate", Name: "verdict"}}}
	switch verdict(g) {
	case "block":
		decided.Failures, decided.Cases[0].Failure = 1, &junitMessage{clean(g.Reason)}
	case "inconclusive":
		decided.Errors, decided.Cases[0].Error = 1, &junitMessage{clean(g.Reason)}
	}
	all := junitSuites{Suites: []junitSuite{decided}}
	for _, s := range g.Suites {
		suite := junitSuite{Name: s.SuiteID, Tests: len(s.Results)}
		for _, c := range s.Results {
			one := junitCase{Class: s.SuiteID, Name: clean(cmp.Or(c.Name, c.Case))}
			if verdict(g) == "block" && slices.Contains(s.Worse, c.Case) {
				suite.Failures++
				one.Failure = &junitMessage{Worse(c)}
			}
			suite.Cases = append(suite.Cases, one)
		}
		all.Suites = append(all.Suites, suite)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// Worse says in a sentence how the trials of a case got worse.
func Worse(c api.GateCase) string {
	text := fmt.Sprintf("%s trials passed before, %s now", share(c.Current), share(c.New))
	if c.FreshNew != nil {
		text += fmt.Sprintf("; tried again: %s before, %s now", share(*c.FreshCurrent), share(*c.FreshNew))
	}
	return text
}

// clean drops what XML cannot hold. encoding/xml would replace such characters by U+FFFD, which
// reads as broken text.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' {
			return -1
		}
		return r
	}, s)
}

// SARIF returns a gate for code hosts and editors, to be encoded as JSON: a
// finding for each case that got worse, and one for the verdict, where the caller
// says that they are. The shape is SARIF 2.1.0's. Lines start at 1.
func SARIF(g api.Gate, where func(c api.GateCase) (file string, line int)) any {
	type object = map[string]any
	level := map[string]string{"block": "error", "inconclusive": "warning"}[verdict(g)]
	results := []object{}
	finding := func(of api.GateCase, rule, level, text string) {
		file, line := where(of)
		results = append(results, object{
			"ruleId": rule, "level": level, "message": object{"text": text},
			"locations": []object{{"physicalLocation": object{
				"artifactLocation": object{"uri": file}, "region": object{"startLine": line},
			}}},
		})
	}
	if level != "" {
		finding(api.GateCase{}, "gate", level, g.Reason)
	}
	for _, s := range g.Suites {
		for _, c := range s.Results {
			if slices.Contains(s.Worse, c.Case) {
				finding(c, "worse-case", cmp.Or(level, "note"), fmt.Sprintf("%s: %s", cmp.Or(c.Name, c.Case), Worse(c)))
			}
		}
	}
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{
			"tool": object{"driver": object{"name": "whetstone-gate", "rules": []object{
				{"id": "gate", "shortDescription": object{"text": "The verdict of the gate"}},
				{"id": "worse-case", "shortDescription": object{"text": "A case that got worse"}},
			}}},
			"results": results,
		}},
	}
}
