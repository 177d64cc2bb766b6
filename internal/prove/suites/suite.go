// Package suites keeps suites of cases that say what a skill should do. It
// validates them when they are written, and imports and exports the file
// formats of other tools. Package runs runs them. It owns the tables
// eval_suites, eval_environments and eval_suite_edits.
package suites

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
)

// A Suite is a named set of cases.
type Suite struct {
	ID              string
	OrgID           string
	SourceID        *string // of a cloud source, without the prefix; nil for none
	Name            string
	SourceKind      SourceKind
	VerifierKind    VerifierKind
	SupportsNoSkill bool
	// ResourceLimits are limits of the cases' programs, a JSON object; nil if there are
	// none.
	ResourceLimits json.RawMessage
	CaseCount      int
	Kind           SuiteKind
	// Issues say why the suite cannot be run; empty if it can.
	Issues []fault.Issue
	// Cases are nil where only the other columns were read.
	Cases []Case
	// Document has the cases as they are stored, a JSON array; nil where Cases is.
	Document json.RawMessage
	// Version is incremented by every change.
	Version   int64
	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// WithoutASkill reports whether runs without the skill can show anything: not if all
// outputs are given.
func (s Suite) WithoutASkill() bool {
	return s.SupportsNoSkill && slices.ContainsFunc(s.Cases, func(c Case) bool { return c.Subject.Output == nil })
}

// Runnable reports whether the suite can be run.
func (s Suite) Runnable() bool { return len(s.Issues) == 0 }

// A SourceKind is where a suite's cases come from.
type SourceKind string

// The origins.
const (
	Manual               SourceKind = "manual"
	Imported             SourceKind = "imported"
	ContributorAggregate SourceKind = "contributor_aggregate"
	OrgExemplars         SourceKind = "org_exemplars"
)

// A VerifierKind says what decides a suite's cases.
type VerifierKind string

// The verifiers. Suites with a structured rubric are stored, but never run.
const (
	LLMJudge         VerifierKind = "llm_judge"
	Deterministic    VerifierKind = "deterministic"
	StructuredRubric VerifierKind = "structured_rubric"
)

// A SuiteKind tells suites of task packages from all others.
type SuiteKind string

// The kinds of suite.
const (
	PackageSuite SuiteKind = "task_package"
	CaseSuite    SuiteKind = "cases"
)

// maxCases bounds the cases of a suite, which has at least one.
const maxCases = 500

// allowedKinds returns the kinds of case that a verifier can decide; nil means all, for
// suites that are never run.
func (v VerifierKind) allowedKinds() []CaseKind {
	switch v {
	case LLMJudge:
		return []CaseKind{TriggerQuery, LLMRubric}
	case Deterministic:
		return []CaseKind{ExactMatch, JSONSchema, BooleanAssertion, TaskPackage}
	case StructuredRubric:
	}
	return nil
}

func (v VerifierKind) allows(k CaseKind) bool {
	allowed := v.allowedKinds()
	return allowed == nil || slices.Contains(allowed, k)
}

// setCases sets the cases, which must come from newCases, and what is derived
// from them.
func (s *Suite) setCases(cases []Case) {
	s.Cases, s.CaseCount, s.Kind = cases, len(cases), CaseSuite
	s.Document, _ = json.Marshal(s.fields()) // what was decoded can be encoded
	if !slices.ContainsFunc(cases, func(c Case) bool { return c.Kind != TaskPackage }) {
		s.Kind = PackageSuite
	}
	s.Issues = s.KindIssues()
	ids := map[string]bool{}
	for i, c := range cases {
		s.Issues = append(s.Issues, inCase(i, c.problems)...)
		if ids[c.ID] {
			duplicate := fault.At("id", "another case of the suite has the id %q", c.ID)
			s.Issues = append(s.Issues, inCase(i, []fault.Issue{duplicate})...)
		}
		ids[c.ID] = true
	}
}

// KindIssues returns why suites of this verifier and origin can't be run, whatever
// their cases are.
func (s Suite) KindIssues() []fault.Issue {
	switch {
	case s.VerifierKind == StructuredRubric:
		return []fault.Issue{fault.At("verifier_kind", "suites with the verifier structured_rubric cannot be run")}
	case s.SourceKind == Imported && s.Kind != PackageSuite:
		return []fault.Issue{fault.At("source_kind", "an imported suite can be run only if every case is a task_package")}
	case s.SourceKind != Manual && s.SourceKind != Imported:
		return []fault.Issue{fault.At("source_kind", "suites of the kind %s cannot be run", s.SourceKind)}
	}
	return nil
}

// fields returns the cases as their authors wrote them.
func (s Suite) fields() []Fields {
	all := make([]Fields, len(s.Cases))
	for i, c := range s.Cases {
		all[i] = c.Fields
	}
	return all
}

// maxIssues is how many issues a message names; the suite shows them all.
const maxIssues = 5

// IssueText explains on one line why a suite can't be run, e.g. "cases_json.0.query:
// query is required; and more".
func IssueText(issues []fault.Issue) string {
	var all []string
	for i, issue := range issues {
		if i == maxIssues {
			all = append(all, "and more")
			break
		}
		all = append(all, strings.Join(issue.Path, ".")+": "+issue.Message)
	}
	return strings.Join(all, "; ")
}

// Resources returns the most that a program of the suite's cases may use.
func (s Suite) Resources() taskfile.Resources {
	var fields Fields
	_ = json.Unmarshal(s.ResourceLimits, &fields) // it is an object, or there are none
	return taskfile.ParseResources(fields)
}

// Choose returns the cases with these ids, in the order of the suite, and their
// document.
func Choose(cases []Case, ids []string) (some []Case, document json.RawMessage, err error) {
	var fields []Fields
	for _, c := range cases {
		if slices.Contains(ids, c.ID) {
			some, fields = append(some, c), append(fields, c.Fields)
		}
	}
	if len(some) == 0 || len(some) < len(ids) {
		return nil, nil, fault.Invalid("case_ids", "case_ids must name cases of the suite, each once")
	}
	document, err = json.Marshal(fields)
	return some, document, err
}
