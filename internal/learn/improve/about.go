package improve

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// caseAsked is what a case asks, without what does not make it another one. Two cases that ask the
// same are duplicates for the split, however their graders differ: a writer that sees one of them
// knows the other.
func caseAsked(c suites.Case) string {
	asked := c.Query
	switch {
	case c.Kind == suites.TriggerQuery:
	case c.Subject.Prompt != nil:
		asked = *c.Subject.Prompt
	default:
		return caseDigest(c)
	}
	return text.OneLine(strings.ToLower(asked))
}

// caseDigest names a case by its content, whatever it is called. A case that only got another name,
// weight or tag is the same case: its scores can still be compared.
func caseDigest(c suites.Case) string {
	fields := maps.Clone(c.Fields)
	for _, name := range []string{"id", "name", "weight", "tags"} {
		delete(fields, name)
	}
	raw, _ := json.Marshal(fields) // which was parsed from JSON
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// caseGroup is the stratum of a case. The split is stratified by it, e.g. "trigger_query
// should_trigger".
func caseGroup(c suites.Case) string {
	return strings.TrimSuffix(string(c.Kind)+" "+string(c.Expectation), " ")
}

// caseCalls is how many requests to the judge's model a trial of a case makes, at most:
// a verdict by a rubric may be asked to confirm its quotations. Requests that the
// server refused and those of agents are not known. The numbers are used for limits, so they err on
// the high side.
func caseCalls(c suites.Case, about judge.Description) int {
	if about.API == judge.Builtin {
		return 0
	}
	n := 0
	if c.Kind == suites.TriggerQuery || c.Subject.Prompt != nil {
		n++
	}
	for _, g := range c.Graders {
		if g.IsJudged() {
			n += 2
		}
	}
	if c.Kind == suites.LLMRubric && c.Graders == nil {
		n += 2
	}
	return n
}

// caseTexts are all words of a case that a writer who must not know it could copy. They are
// compared with what the writer wrote; see edit.Guard.
func caseTexts(c suites.Case) []string {
	all := slices.Concat([]string{c.Query, c.Rubric, c.Expected, c.Assertion, c.Package.Instruction, string(c.Schema)},
		c.Expectations)
	if c.Subject.Prompt != nil {
		all = append(all, *c.Subject.Prompt)
	}
	for _, g := range c.Graders {
		all = append(all, g.Pattern, g.Criteria)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// caseExpectation is what the output of a case should be like.
func caseExpectation(c suites.Case) string {
	all := slices.Clone(c.Expectations)
	switch c.Kind {
	case suites.TriggerQuery:
		if c.Expectation == suites.ShouldTrigger {
			return "the skill is loaded"
		}
		return "the skill is not loaded"
	case suites.LLMRubric:
		all = append(all, c.Rubric)
	case suites.ExactMatch:
		all = append(all, "exactly this: "+c.Expected)
	case suites.JSONSchema:
		all = append(all, "JSON that is valid by "+string(c.Schema))
	case suites.BooleanAssertion:
		all = append(all, c.Assertion)
	case suites.TaskPackage:
		all = append(all, "the verifier of the task passes")
	}
	for _, g := range c.Graders {
		all = append(all, strings.TrimSpace(g.Name+" "+g.Criteria+" "+g.Pattern))
	}
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), "\n")
}
