package gating

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// findingsShown is how many findings of the validation a page shows.
const findingsShown = 50

// Pages reads what the pages show.
type Pages struct {
	Registry  *registry.Service
	Gates     *gates.Service
	Approvals *approvals.Service
	Auth      *auth.Service
}

// A Review is the page on which people decide about a candidate.
type Review struct {
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

// Review returns the page of a version of the caller's organisation.
func (p Pages) Review(ctx context.Context, c access.Caller, entryID, version string) (r Review, err error) {
	if r.Review, err = p.Approvals.Review(ctx, c.OrgID, entryID, version); err != nil {
		return r, err
	}
	r.Held = r.Version.State == registry.Candidate
	if r.Version.ID != r.Entry.CurrentVersionID {
		r.From = r.Entry.CurrentVersion
	}
	if r.Version.GateID != nil {
		g, err := p.Gates.Get(ctx, c.OrgID, *r.Version.GateID)
		if err != nil {
			return r, err
		}
		r.Gate = &g
	}
	if r.Refusal, err = p.refusal(ctx, c, r.Review, approvals.Approve); err != nil {
		return r, err
	}
	rejecting, err := p.refusal(ctx, c, r.Review, approvals.Reject)
	if err != nil {
		return r, err
	}
	r.Rejecting = rejecting == ""
	m, err := p.Auth.Member(ctx, c.OrgID, r.Version.PushedBy)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return r, err
	}
	r.Publisher = cmp.Or(m.Name, m.Email, "a former member")
	return r, p.validate(ctx, &r)
}

func (p Pages) refusal(ctx context.Context, c access.Caller, r approvals.Review, d approvals.Decision) (string, error) {
	err := p.Approvals.MayAnswer(ctx, p.Approvals.DB, c, r, d)
	if refused, ok := errors.AsType[*fault.Error](err); ok && refused.Kind == fault.Denied {
		return refused.Message, nil
	}
	return "", err
}

func (p Pages) validate(ctx context.Context, r *Review) error {
	pkg, err := p.Registry.Open(ctx, r.Version)
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
func (r Review) Findings() []lint.Finding {
	return r.Validated.Findings[:min(len(r.Validated.Findings), findingsShown)]
}

// MoreFindings is how many it does not show.
func (r Review) MoreFindings() int { return len(r.Validated.Findings) - len(r.Findings()) }
