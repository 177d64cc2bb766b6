package sources

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Review records what a person decided on a suggestion, in place of an earlier
// decision. Any suggestion id is taken: the decision carries the whole case.
// An accepted case is a draft, unless a suite is named: then it is appended to
// that, as by Apply.
func (s *Service) Review(ctx context.Context, c access.Caller, sourceID string, d Decision, suiteID string) (r Review, err error) {
	if d.Status == Accepted && suiteID != "" {
		_, r, err = s.Apply(ctx, c, sourceID, d, suiteID)
		return r, err
	}
	defer fault.Wrap(&err, "review on source %s", sourceID)
	if err := d.check(); err != nil {
		return r, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := lock(ctx, tx, c.OrgID, sourceID)
		if err != nil {
			return err
		}
		r = newReview(c, src, d)
		if d.Status == Accepted {
			target := Draft
			r.AcceptTarget = &target
		}
		r, err = keepReview(ctx, tx, src, r)
		return err
	})
	return r, err
}

func newReview(c access.Caller, src Source, d Decision) Review {
	return Review{
		ID: store.NewID(), OrgID: src.OrgID, SourceID: src.ID, Decision: d, ReviewedBy: c.UserID, ReviewedAt: store.Now(),
	}
}

// Apply accepts a suggestion and appends its case to a suite of the source.
// Doing so again changes nothing, whatever is said of the case then.
func (s *Service) Apply(ctx context.Context, c access.Caller, sourceID string, d Decision, suiteID string) (suite Suite, r Review, err error) {
	defer fault.Wrap(&err, "apply on source %s", sourceID)
	d.Status = Accepted
	if err := d.check(); err != nil {
		return suite, r, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := lock(ctx, tx, c.OrgID, sourceID)
		if err != nil {
			return err
		}
		r, err = reviewOf(ctx, tx, src, d.SuggestionID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if r.AppliedSuiteID != nil && *r.AppliedSuiteID == suiteID {
			suite, err = s.append(ctx, tx, src, r.Decision, suiteID) // somebody may have taken it out
			return err
		}
		if suite, err = s.append(ctx, tx, src, d, suiteID); err != nil {
			return err
		}
		target := SavedSuite
		r = newReview(c, src, d)
		r.AcceptTarget, r.AppliedSuiteID, r.AppliedAt = &target, &suite.ID, &r.ReviewedAt
		r, err = keepReview(ctx, tx, src, r)
		return err
	})
	return suite, r, err
}

func (s *Service) append(ctx context.Context, tx *store.Tx, src Source, d Decision, suiteID string) (Suite, error) {
	raw, err := d.triggerCase()
	if err != nil {
		return Suite{}, err
	}
	return s.Suites.Append(ctx, tx, src.OrgID, src.ID, suiteID, raw)
}

// keepReview stores a review in place of an earlier one, whose id it takes.
func keepReview(ctx context.Context, tx *store.Tx, src Source, r Review) (Review, error) {
	id, err := upsertReview(ctx, tx, r)
	if err != nil {
		return r, err
	}
	r.ID = id
	if err := markReviewed(ctx, tx, r.SourceID, r.SuggestionID, true); err != nil {
		return r, err
	}
	return r, src.record(ctx, tx, "sources.review.set", audit.Detail{
		"suggestion": r.SuggestionID, "status": r.Status, "accept_target": r.AcceptTarget, "suite": r.AppliedSuiteID,
	})
}

// Clear removes the decision on a suggestion, which is pending again if it
// still stands.
func (s *Service) Clear(ctx context.Context, orgID, sourceID, suggestionID string) (err error) {
	defer fault.Wrap(&err, "clear review on source %s", sourceID)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := lock(ctx, tx, orgID, sourceID)
		if err != nil {
			return err
		}
		return s.forget(ctx, tx, src, suggestionID)
	})
}

func (s *Service) forget(ctx context.Context, tx *store.Tx, src Source, suggestionID string) error {
	found, err := deleteReview(ctx, tx, src.ID, suggestionID)
	if err != nil {
		return err
	}
	if !found {
		return fault.New(fault.NotFound, "Review not found")
	}
	if err := markReviewed(ctx, tx, src.ID, suggestionID, false); err != nil {
		return err
	}
	if err := src.record(ctx, tx, "sources.review.clear", audit.Detail{"suggestion": suggestionID}); err != nil {
		return err
	}
	return s.Suggest(ctx, tx, src.OrgID, src.ID) // the case may stand in a suite
}

// Undo takes a decision back with what it did: its case leaves the suite to
// which it was applied. Gone reports whether it stands in none; a suite keeps
// its last case.
func (s *Service) Undo(ctx context.Context, orgID, sourceID, suggestionID string) (gone bool, err error) {
	defer fault.Wrap(&err, "undo review on source %s", sourceID)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := lock(ctx, tx, orgID, sourceID)
		if err != nil {
			return err
		}
		r, err := reviewOf(ctx, tx, src, suggestionID)
		if err != nil {
			return err
		}
		if gone = true; r.AppliedSuiteID != nil {
			raw, err := r.triggerCase()
			if err != nil {
				return err
			}
			if gone, err = s.Suites.Remove(ctx, tx, orgID, *r.AppliedSuiteID, raw); err != nil {
				return err
			}
		}
		return s.forget(ctx, tx, src, suggestionID)
	})
	return gone, err
}
