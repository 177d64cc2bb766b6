package intoto

import (
	"cmp"
	"fmt"
	"strings"
)

// Summary says what a statement proves, in a line, e.g. "gate passed: tables 18 of
// 20, version 1.0.0 9 of 20".
func (r Read) Summary() string {
	if r.Eval != nil {
		return r.Eval.summary()
	}
	x := r.Provenance.BuildDefinition.ExternalParameters
	if x.Workflow != nil {
		return x.Workflow.summary()
	}
	if x.Repository == "" {
		text := "pushed by a member with push access to " + x.Organisation
		if x.Claimed != nil && x.Claimed.Repository != "" {
			text += "; says that it comes from " + x.Claimed.Repository
		}
		return text
	}
	text := "read from " + x.Repository
	if x.Path != "" && x.Path != "." {
		text += ", folder " + x.Path
	}
	if x.Ref != "" {
		text += ", at " + x.Ref
	}
	for _, d := range r.Provenance.BuildDefinition.ResolvedDependencies {
		if commit := d.Digest["gitCommit"]; commit != "" && commit != x.Ref {
			text += ", commit " + commit
		}
	}
	return text
}

// summary leaves out what the token didn't have.
func (w *Workflow) summary() string {
	text := "published by a workflow run of " + cmp.Or(w.Address(), w.Repository)
	for _, part := range []struct{ name, value string }{
		{"at", w.Ref}, {"commit", w.Commit}, {"workflow", w.File}, {"run", cmp.Or(w.RunURL, w.RunID)},
	} {
		if part.value != "" {
			text += ", " + part.name + " " + part.value
		}
	}
	return text
}

func (p EvalPredicate) summary() string {
	text := "eval run"
	if d := p.Decision; d != nil {
		switch d.Verdict {
		case "pass":
			text = "gate passed"
		case "block":
			text = "gate blocked"
		case "":
			text = "gate not decided"
		default:
			text = "gate " + d.Verdict
		}
		if d.Overridden {
			text += ", published by a person all the same"
		}
	}
	var suites []string
	for _, s := range p.Suites {
		var arms []string
		for _, r := range s.Runs {
			// Its cases were chosen because they looked bad, so their rate misleads.
			if r.Step == "confirm" {
				continue
			}
			of := fmt.Sprintf("%d of %d", r.Passed, r.Cases)
			if r.Arm == "current" {
				of = fmt.Sprintf("version %s %s", p.Against, of)
			}
			arms = append(arms, of)
			if b := r.Baseline; b != nil {
				kind := map[string]string{"no_skill": "without the skill", "previous": "the version before"}[b.Kind]
				arms = append(arms, fmt.Sprintf("%s %.0f %%", kind, 100*b.PassRate))
			}
		}
		suites = append(suites, fmt.Sprintf("%s %s", s.Name, strings.Join(arms, ", ")))
	}
	if len(suites) > 0 {
		text += ": " + strings.Join(suites, "; ")
	}
	return text
}
