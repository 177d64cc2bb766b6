package web

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// candidateFindings is how many findings of the validation a page shows.
const candidateFindings = 50

// A candidateReview is the page on which people decide about a candidate. It also
// shows versions that were decided on, as a record.
type candidateReview struct {
	approvals.Review
	Held      bool        // it is a candidate
	From      string      // the version to compare with; "" for none
	Gate      *gates.Gate // nil without one
	Validated lint.Report // the worst findings first
	Publisher string      // who published the version
	Refusal   string      // why the caller may not approve; "" if they may
	Rejecting bool        // the caller may reject
	Comment   string      // the input
	Reason    string      // the input of the override
}

// reviewOf returns the page of a version of the caller's organisation.
func (s *Service) reviewOf(ctx context.Context, c access.Caller, entryID, version string) (r candidateReview, err error) {
	if r.Review, err = s.Approvals.Review(ctx, c.OrgID, entryID, version); err != nil {
		return r, err
	}
	r.Held = r.Version.State == registry.Candidate
	// Compared with the current version: that is what would change for people.
	if r.Version.ID != r.Entry.CurrentVersionID {
		r.From = r.Entry.CurrentVersion
	}
	if r.Version.GateID != nil {
		g, err := s.Gates.Get(ctx, c.OrgID, *r.Version.GateID)
		if err != nil {
			return r, err
		}
		r.Gate = &g
	}
	// The reason is shown instead of a button that would be refused.
	if r.Refusal, err = s.whyRefused(ctx, c, r.Review, approvals.Approve); err != nil {
		return r, err
	}
	rejecting, err := s.whyRefused(ctx, c, r.Review, approvals.Reject)
	if err != nil {
		return r, err
	}
	r.Rejecting = rejecting == ""
	m, err := s.Auth.Member(ctx, c.OrgID, r.Version.PushedBy)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return r, err
	}
	r.Publisher = cmp.Or(m.Name, m.Email, "a former member")
	return r, s.validateCandidate(ctx, &r)
}

// whyRefused returns why the caller may not decide so, "" if they may.
func (s *Service) whyRefused(ctx context.Context, c access.Caller, r approvals.Review, d approvals.Decision) (string, error) {
	err := s.Approvals.MayAnswer(ctx, s.Approvals.DB, c, r, d)
	if refused, ok := errors.AsType[*fault.Error](err); ok && refused.Kind == fault.Denied {
		return refused.Message, nil
	}
	return "", err
}

// validateCandidate runs the validation again: rules may be newer than the version.
func (s *Service) validateCandidate(ctx context.Context, r *candidateReview) error {
	pkg, err := s.Registry.Open(ctx, r.Version)
	if err != nil {
		return err
	}
	defer pkg.Close()
	if r.Validated, err = lint.Check(ctx, pkg); err != nil {
		return err
	}
	worst := []lint.Severity{lint.Error, lint.Warning, lint.Info}
	slices.SortStableFunc(r.Validated.Findings, func(a, b lint.Finding) int {
		return cmp.Compare(slices.Index(worst, a.Severity), slices.Index(worst, b.Severity))
	})
	return nil
}

// Findings are those that the page shows.
func (r candidateReview) Findings() []lint.Finding {
	return r.Validated.Findings[:min(len(r.Validated.Findings), candidateFindings)]
}

// MoreFindings is how many it does not show.
func (r candidateReview) MoreFindings() int { return len(r.Validated.Findings) - len(r.Findings()) }
