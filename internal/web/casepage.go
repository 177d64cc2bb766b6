package web

// Pages show the cases of a suite in words. A case has a form of its own.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// A caseListRow is a case in the list of a suite. A case that is not Runnable is kept and
// skipped by runs; one that is not Editable can only be changed as JSON.
type caseListRow struct {
	N        int // from 0
	Name     string
	Kind     string // in words
	Asked    string
	Expected string
	Tags     []string
	Runnable bool
	Editable bool
}

// kinds are the kinds of cases that have a form, in words.
var kinds = map[suites.CaseKind]string{
	suites.TriggerQuery: "trigger query", suites.ExactMatch: "exact output", suites.JSONSchema: "JSON Schema",
	suites.BooleanAssertion: "assertion", suites.LLMRubric: "judged answer",
}

// caseKinds lists the kinds of cases that can be added, by the suite's verifier. A
// suite's verifier must be able to decide the kind: a deterministic one asks no
// model.
func caseKinds(verifier suites.VerifierKind) []suites.CaseKind {
	if verifier == suites.Deterministic {
		return []suites.CaseKind{suites.ExactMatch, suites.JSONSchema, suites.BooleanAssertion}
	}
	return []suites.CaseKind{suites.TriggerQuery, suites.LLMRubric, suites.BooleanAssertion}
}

// caseKindName is a kind in words.
func caseKindName(kind suites.CaseKind) string {
	if kind == suites.TaskPackage {
		return "task"
	}
	return cmp.Or(kinds[kind], "unknown kind")
}

// caseListRows describes cases. N is the index that the form of a case is opened by.
func caseListRows(cases []suites.Case) []caseListRow {
	rows := make([]caseListRow, len(cases))
	for i, c := range cases {
		rows[i] = caseListRow{
			N: i, Name: c.Name, Kind: caseKindName(c.Kind), Asked: askedByCase(c), Expected: expectedByCase(c), Tags: c.Tags,
			Runnable: c.Runnable(), Editable: editable(c),
		}
	}
	return rows
}

// editable reports whether the form loses nothing of the case: it has an argument and a
// point on each line, tags between commas, and a rubric or points.
func editable(c suites.Case) bool {
	has := func(separator string) func(string) bool {
		return func(text string) bool { return strings.Contains(text, separator) }
	}
	return kinds[c.Kind] != "" && len(c.Graders) == 0 && (c.Rubric == "" || len(c.Expectations) == 0) &&
		!slices.ContainsFunc(append(slices.Clone(c.Subject.Command), c.Expectations...), has("\n")) &&
		!slices.ContainsFunc(c.Tags, has(","))
}

// askedByCase is what a case asks of the skill. Exactly one of the subject's fields is
// set, which the suite's checks make sure of.
func askedByCase(c suites.Case) string {
	s := c.Subject
	switch {
	case c.Kind == suites.TriggerQuery:
		return c.Query
	case c.Kind == suites.TaskPackage:
		return c.Package.Instruction
	case s.Prompt != nil:
		return *s.Prompt
	case len(s.Command) > 0:
		return "$ " + caseCommandLine(s.Command)
	case s.Output != nil:
		return "Given output: " + *s.Output
	}
	return ""
}

// caseCommandLine joins a command as a shell would take it. It is for display only:
// commands are run without a shell.
func caseCommandLine(command []string) string {
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = word
		if word == "" || strings.ContainsAny(word, " \t\n\"'$`\\|&;<>()*?[]#~{}!") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// expectedByCase is what must hold for the case to pass. Graders replace everything else,
// so they come first.
func expectedByCase(c suites.Case) string {
	if len(c.Graders) > 0 {
		return "All of its " + strconv.Itoa(len(c.Graders)) + " graders pass"
	}
	switch c.Kind {
	case suites.TriggerQuery:
		if c.Expectation == suites.ShouldNotTrigger {
			return "The skill does not trigger"
		}
		return "The skill triggers"
	case suites.ExactMatch:
		return c.Expected
	case suites.JSONSchema:
		return "JSON that fits " + string(c.Schema)
	case suites.BooleanAssertion:
		return c.Assertion
	case suites.LLMRubric:
		return cmp.Or(c.Rubric, strings.Join(c.Expectations, "\n"))
	case suites.TaskPackage:
		return c.Package.VerifierRef + " passes"
	}
	return ""
}

// A suiteCaseForm is the form of one case. Numbers stay text, so that a refused form shows
// what was typed. Version is that of the suite, which guards against overwriting
// another person's change.
type suiteCaseForm struct {
	Kind      suites.CaseKind
	Name      string   `form:"name"`
	Tags      string   `form:"tags,raw"`
	Weight    string   `form:"weight"`
	From      string   `form:"from,raw"` // where the output comes from: prompt, command or output
	Asked     string   `form:"asked,lines"`
	Expected  string   `form:"expected,lines"`
	List      bool     `form:"list"` // Expected has a point on each line, that the judge decides alone
	Normalize []string `form:"normalize"`
	Threshold string   `form:"threshold"`
	Version   int64    `form:"version"`
}

// normalizations are what an exact match may ignore.
func normalizations() []string { return []string{"trim", "case", "whitespace", "newline"} }

// Ignores reports whether the case ignores that.
func (f suiteCaseForm) Ignores(name string) bool { return slices.Contains(f.Normalize, name) }

// KindName is the kind in words.
func (f suiteCaseForm) KindName() string { return caseKindName(f.Kind) }

// newCaseForm is the form of a new case. The defaults are those of the format, so that
// an untouched field adds nothing to a case.
func newCaseForm(kind suites.CaseKind) (suiteCaseForm, error) {
	if kinds[kind] == "" {
		return suiteCaseForm{}, fault.New(fault.NotFound, "There is no form for cases of the kind %q", kind)
	}
	f := suiteCaseForm{Kind: kind, From: "prompt", Weight: "1", Threshold: "1"}
	if kind == suites.TriggerQuery {
		f.Expected = string(suites.ShouldTrigger)
	}
	if kind == suites.ExactMatch || kind == suites.JSONSchema {
		f.From = "command"
	}
	return f, nil
}

// caseFormOf is the form of a case. Only some have one. What editable allows can be
// written back by fields without a loss.
func caseFormOf(c suites.Case) (suiteCaseForm, error) {
	if !editable(c) {
		return suiteCaseForm{}, fault.New(fault.NotFound, "This case can only be changed as JSON")
	}
	f := suiteCaseForm{
		Kind: c.Kind, Name: c.Name, Tags: strings.Join(c.Tags, ", "), Weight: decimal(c.Weight),
		Threshold: decimal(cmp.Or(c.Threshold, 1)),
		Normalize: c.Normalize, From: "prompt", Asked: c.Query, Expected: expectedByCase(c),
		List: c.Rubric == "",
	}
	switch s := c.Subject; {
	case s.Prompt != nil:
		f.Asked = *s.Prompt
	case len(s.Command) > 0:
		f.From, f.Asked = "command", strings.Join(s.Command, "\n")
	case s.Output != nil:
		f.From, f.Asked = "output", *s.Output
	}
	if c.Kind == suites.TriggerQuery {
		f.Expected = string(c.Expectation)
	}
	// A schema is stored compact, and read and edited indented.
	if c.Kind == suites.JSONSchema {
		var indented bytes.Buffer
		f.Expected = string(c.Schema)
		if json.Indent(&indented, c.Schema, "", "  ") == nil {
			f.Expected = indented.String()
		}
	}
	return f, nil
}

// decimal formats a number in the shortest form, e.g. "0.5".
func decimal(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

// In returns the cases of a suite with the form's as the nth, or as a new one if n is
// negative. The other cases are returned as they are, with fields that no form
// shows.
func (f suiteCaseForm) In(cases []suites.Case, n int) ([]suites.Fields, error) {
	all := fieldsOf(cases)
	if n < 0 {
		n, all = len(all), append(all, nil)
	}
	var err error
	all[n], err = f.fields(all[n])
	return all, err
}

// withoutCase returns the cases of a suite without the nth. It is the caller's task that
// n is in range: handlers check it against the suite.
func withoutCase(cases []suites.Case, n int) ([]suites.Fields, error) {
	if len(cases) < 2 {
		return nil, fault.New(fault.Conflict, "A suite needs at least one case")
	}
	return slices.Delete(fieldsOf(cases), n, n+1), nil
}

// fieldsOf returns the cases as JSON has them.
func fieldsOf(cases []suites.Case) []suites.Fields {
	all := make([]suites.Fields, len(cases))
	for i, c := range cases {
		all[i] = c.Fields
	}
	return all
}

// fields applies the form to the fields of a case, nil for a new one. What the form does
// not show stays.
func (f suiteCaseForm) fields(old suites.Fields) (suites.Fields, error) {
	out := maps.Clone(old)
	if out == nil {
		out = suites.Fields{}
	}
	set := func(name string, value any) { out[name], _ = json.Marshal(value) } // strings and numbers can be encoded
	set("case_kind", f.Kind)
	// A default is left out, so that exported suites stay small.
	optional := func(name string, value any, given bool) {
		delete(out, name)
		if given {
			set(name, value)
		}
	}
	optional("name", f.Name, f.Name != "")
	tags := splitCases(f.Tags, ",")
	optional("tags", tags, len(tags) > 0)
	weight, err := number(f.Weight, "weight")
	if err != nil {
		return nil, err
	}
	optional("weight", weight, weight != 1)
	if f.Kind == suites.TriggerQuery {
		set("query", strings.TrimSpace(f.Asked))
		set("expectation", f.Expected)
		return out, nil
	}
	// All ways to give the subject, since the form may have changed from one to
	// another.
	for _, name := range []string{"prompt", "input", "query", "command", "output"} {
		delete(out, name)
	}
	switch f.From {
	case "command":
		set("command", strings.Split(strings.TrimRight(f.Asked, "\n"), "\n"))
	case "output":
		set("output", f.Asked)
	default:
		set("prompt", f.Asked)
	}
	return out, f.expect(set, optional)
}

// expect sets what must hold for the case to pass.
func (f suiteCaseForm) expect(set func(string, any), optional func(string, any, bool)) error {
	switch f.Kind {
	case suites.ExactMatch:
		set("expected", f.Expected)
		optional("normalize", f.Normalize, len(f.Normalize) > 0)
	case suites.JSONSchema:
		if !json.Valid([]byte(f.Expected)) {
			return fault.Invalid("expected", "The JSON Schema is not valid JSON")
		}
		set("schema", json.RawMessage(f.Expected))
	case suites.BooleanAssertion:
		set("assertion", strings.TrimSpace(f.Expected))
	case suites.LLMRubric:
		threshold, err := number(f.Threshold, "threshold")
		if err != nil {
			return err
		}
		optional("rubric", f.Expected, !f.List)
		optional("expectations", splitCases(f.Expected, "\n"), f.List)
		optional("threshold", threshold, threshold != 1)
	case suites.TriggerQuery, suites.TaskPackage: // the first is a query alone, the second has no form
	}
	return nil
}

// number parses a positive number; "" is 1, the default of all of them.
func number(text, field string) (float64, error) {
	n, err := strconv.ParseFloat(cmp.Or(text, "1"), 64)
	if err != nil || !(n > 0 && n <= 1e6) {
		return 0, fault.Invalid(field, "The %s must be a number above 0", field)
	}
	return n, nil
}

// splitCases drops empty parts and the spaces around the others.
func splitCases(text, separator string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
