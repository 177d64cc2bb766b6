package checks

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
)

// describe is what a gate says: the verdict, only what changed, and where.
func (s *Service) describe(ctx context.Context, g gates.Gate, folder string) (r repohost.Report, err error) {
	r = repohost.Report{GateID: g.ID, URL: s.PublicURL + "/gates/" + g.ID}
	var b strings.Builder
	if g.Status.Open() {
		r.State, r.Title = host.StatePending, "The gate is "+string(g.Status)
		if g.Against != nil {
			r.Title += ", against version " + *g.Against
		}
		b.WriteString(r.Title + ".\n")
	} else {
		r.Title = capital(outcome.Title(g.Output()))
		if worst := outcome.Worst(g.Output()); worst != "" {
			r.Description = r.Title + ": " + worst // a status has no body
		}
		r.State, r.Conclusion = stateOf(g)
		link, err := s.caseLinks(ctx, g)
		if err != nil {
			return r, err
		}
		if err := outcome.Markdown(&b, g.Output(), link); err != nil {
			return r, err
		}
		if r.Annotations, err = s.annotations(ctx, g, folder); err != nil {
			return r, err
		}
	}
	fmt.Fprintf(&b, "\n[The gate and its trials](%s)\n", r.URL)
	r.Summary = b.String()
	return r, nil
}

// caseLinks returns the pages that show the trials of a gate's cases on both versions
// side by side, beginning with one that the new version failed.
func (s *Service) caseLinks(ctx context.Context, g gates.Gate) (func(suiteID, caseID string) string, error) {
	failed, err := s.Gates.Failures(ctx, g)
	if err != nil {
		return nil, err
	}
	return func(suiteID, caseID string) string {
		at, found := failed[suiteID]
		if !found {
			return ""
		}
		q := url.Values{"case": {caseID}, "with": {at.Current}}
		return fmt.Sprintf("%s/runs/%s/trials/%d/compare?%s", s.PublicURL, at.New, max(1, at.First[caseID]), q.Encode())
	}, nil
}

// capital makes the first letter a capital one.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// stateOf is what a gate means for a commit, until a person decides otherwise. A
// gate that only reports fails nothing.
func stateOf(g gates.Gate) (host.State, host.Conclusion) {
	enforced := g.Policy.Mode == gates.Enforce
	switch {
	case g.Status != gates.Decided:
		return host.StateError, host.ConclusionCancelled
	case *g.Verdict == decision.Pass:
		return host.StateSuccess, host.ConclusionSuccess
	case enforced && *g.Verdict == decision.Block:
		return host.StateFailure, host.ConclusionFailure
	case enforced && !g.Releases():
		return host.StateFailure, host.ConclusionAction
	}
	return host.StateSuccess, host.ConclusionNeutral
}

// decide adds what became of the version of a gate.
func decide(r *repohost.Report, g gates.Gate, v registry.Version) {
	released := g.Releases()
	verdict := r.Title
	switch {
	case v.State == registry.Withdrawn:
		r.State, r.Conclusion = host.StateFailure, host.ConclusionFailure
		r.Title, r.Summary = "Withdrawn by a person", fmt.Sprintf("Version %s was withdrawn.\n\n%s", v.Version, r.Summary)
	case v.State == registry.Candidate:
		r.Summary += fmt.Sprintf("\nVersion %s is a candidate: it is not delivered.\n", v.Version)
	case g.Status.Open():
	case g.Override != nil:
		r.State, r.Conclusion = host.StateSuccess, host.ConclusionSuccess
		r.Title += ", overridden by a person"
		r.Summary = fmt.Sprintf("A person published version %s against the gate: %s\n\n%s", v.Version,
			outcome.Escape(g.Override.Reason), r.Summary)
	case g.Policy.Mode == gates.Enforce && !released:
		r.State, r.Conclusion = host.StateSuccess, host.ConclusionSuccess
		r.Title += ", promoted by a person"
		r.Summary = fmt.Sprintf("A person promoted version %s.\n\n%s", v.Version, r.Summary)
	default:
		r.Summary += fmt.Sprintf("\nVersion %s is published.\n", v.Version)
	}
	if r.Title != verdict { // what a person decided is more telling than the cases
		r.Description = ""
	}
}
