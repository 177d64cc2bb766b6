package suites

import (
	"slices"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// graders parses the graders of a case, which decide it instead of a rubric or an
// assertion; nil if it has none. judged is whether the case may have graders that need
// a judge.
func (p *caseParser) graders(judged bool) []verify.Grader {
	if !p.has("graders") {
		return nil
	}
	all, err := verify.ParseGraders(p.fields["graders"])
	if err != nil {
		p.problem("graders", "%s", err)
		return []verify.Grader{}
	}
	for _, g := range all {
		if reason := g.Unsupported(); reason != "" {
			p.problem("graders", "the grader %q: %s", g.Name, reason)
		}
	}
	if !judged && slices.ContainsFunc(all, verify.Grader.IsJudged) {
		p.problem("graders", "graders of the type llm need a suite with the verifier llm_judge")
	}
	return all
}
