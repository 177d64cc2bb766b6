package verifying

import (
	"fmt"
	"io"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/attestations/intoto"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// summary says what a statement proves, in a line.
func summary(r intoto.Read) string {
	if r.Eval != nil {
		return evalSummary(*r.Eval)
	}
	x := r.Provenance.BuildDefinition.ExternalParameters
	if x.Repository == "" {
		text := "pushed by somebody with the permission to push to " + x.Organisation
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

func evalSummary(p intoto.EvalPredicate) string {
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
				arms = append(arms, fmt.Sprintf("%s %s", kind, term.Percent(&b.PassRate)))
			}
		}
		suites = append(suites, fmt.Sprintf("%s %s", s.Name, strings.Join(arms, ", ")))
	}
	if len(suites) > 0 {
		text += ": " + strings.Join(suites, "; ")
	}
	return text
}

func printResult(w io.Writer, r result) {
	name := term.Plain(r.Organisation + "/" + r.Name + "@" + r.Version)
	if r.Path != "" {
		fmt.Fprintf(w, "%s is %s\n", r.Path, name)
	} else {
		fmt.Fprintln(w, name)
	}
	for _, a := range r.Attestations {
		if a.Problem == nil {
			fmt.Fprintf(w, "  signed: %s (%s, key %.16s)\n", term.Plain(a.Summary), a.At.Format("2006-01-02 15:04 UTC"), term.Plain(a.KeyID))
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "  PROBLEM: %s\n", term.Plain(p.Message))
	}
	if len(r.Unchecked) > 0 {
		fmt.Fprintf(w, "  not part of the skill, and not checked: %s\n", term.Plain(strings.Join(r.Unchecked, ", ")))
	}
	if r.OK && r.Path != "" {
		fmt.Fprintln(w, "Verified: the files are those that were signed.")
	} else if r.OK {
		fmt.Fprintln(w, "Verified: the archive is the one that was signed.")
	} else {
		fmt.Fprintln(w, "NOT verified.")
	}
}
