package suggestions

import (
	"context"
	"errors"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// Service derives suggestions and records the reviews of them.
type Service struct {
	DB       *store.DB
	Jobs     *jobs.Queue
	Sources  *sources.Service
	Suites   *suites.Service
	Sessions *sessions.Service
}

// Detail is a source with its suggestions, reviews and suites.
type Detail struct {
	sources.Detail
	// Pending are the best suggestions without a review and Reviews the newest
	// decisions, at most detailLimit of each; the counts are of all.
	Pending      []Suggestion
	PendingCount int
	Reviews      []Review
	ReviewCount  int
	DraftCount   int // reviews that accepted a case without a suite
	Suites       []suites.Suite
}

// detailLimit is how many suggestions and reviews a detail has; their own
// routes page through all.
const detailLimit = 200

// Detail returns a source of the organisation with all that belongs to it.
func (s *Service) Detail(ctx context.Context, orgID, sourceID string) (d Detail, err error) {
	defer fault.Wrap(&err, "suggestions of source %s", sourceID)
	if d.Detail, err = s.Sources.Detail(ctx, orgID, sourceID); err != nil {
		return d, err
	}
	if d.Pending, d.PendingCount, err = s.pending(ctx, d.Source, detailLimit, 0); err != nil {
		return d, err
	}
	if d.Reviews, d.ReviewCount, err = reviewsOf(ctx, s.DB, d.Source, "", detailLimit, 0); err != nil {
		return d, err
	}
	if d.DraftCount, err = draftsOf(ctx, s.DB, d.Source); err != nil {
		return d, err
	}
	d.Suites, err = s.Suites.OfSource(ctx, s.DB, orgID, d.ID)
	return d, err
}

// Pending returns a page of the suggestions without a review, the best first,
// and the number of all. The page leaves out suggestions whose prompt was
// erased since they were derived.
func (s *Service) Pending(ctx context.Context, orgID, sourceID string, limit, offset int) ([]Suggestion, int, error) {
	src, err := s.Sources.Get(ctx, orgID, sourceID)
	if err != nil {
		return nil, 0, err
	}
	return s.pending(ctx, src, limit, offset)
}

func (s *Service) pending(ctx context.Context, src sources.Source, limit, offset int) ([]Suggestion, int, error) {
	found, total, err := pendingOf(ctx, s.DB, src, limit, offset)
	if err != nil {
		return nil, 0, err
	}
	found, err = withTexts(ctx, s.DB, src, found)
	return found, total, err
}

// Reviews returns a page of the reviews of a source, newest first, and the
// number of all; only those with the status, unless it is "".
func (s *Service) Reviews(
	ctx context.Context, orgID, sourceID string, status Status, limit, offset int,
) ([]Review, int, error) {
	src, err := s.Sources.Get(ctx, orgID, sourceID)
	if err != nil {
		return nil, 0, err
	}
	return reviewsOf(ctx, s.DB, src, status, limit, offset)
}

// Review records a decision on a suggestion and replaces an earlier one. The
// suggestion need not exist: the decision carries the whole case. An accepted
// case becomes a draft if suiteID is "", or names a suite that the caller may not
// change because gates read it, and is otherwise appended to that suite, as by Apply.
func (s *Service) Review(
	ctx context.Context, c access.Caller, sourceID string, d Decision, suiteID string,
) (r Review, err error) {
	if d.Status == Accepted && suiteID != "" {
		_, r, err = s.Apply(ctx, c, sourceID, d, suiteID)
		if !protected(err) {
			return r, err
		}
	}
	defer fault.Wrap(&err, "review on source %s", sourceID)
	if err := d.validate(); err != nil {
		return r, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := s.Sources.Lock(ctx, tx, c.OrgID, sourceID)
		if err != nil {
			return err
		}
		r = newReview(c, src, d)
		if d.Status == Accepted {
			target := Draft
			r.AcceptTarget = &target
		}
		r, err = saveReview(ctx, tx, src, r)
		return err
	})
	return r, err
}

// protected reports whether the caller may not change a suite because gates read it.
func protected(err error) bool {
	e, ok := errors.AsType[*fault.Error](err)
	return ok && e.Code == sources.Protected
}

func newReview(c access.Caller, src sources.Source, d Decision) Review {
	return Review{
		ID: store.NewID(), OrgID: src.OrgID, SourceID: src.ID, Decision: d, ReviewedBy: c.UserID, ReviewedAt: store.Now(),
	}
}

// newApplied is the review that accepts a case into a suite.
func newApplied(c access.Caller, src sources.Source, d Decision, suiteID string) Review {
	r, target := newReview(c, src, d), SavedSuite
	r.AcceptTarget, r.AppliedSuiteID, r.AppliedAt = &target, &suiteID, &r.ReviewedAt
	return r
}

// Apply accepts a suggestion and appends its case to a suite of the source. It
// is idempotent: a second call for the same suite keeps the first decision, and
// only appends its case again if it was removed from the suite meanwhile.
func (s *Service) Apply(
	ctx context.Context, c access.Caller, sourceID string, d Decision, suiteID string,
) (suite suites.Suite, r Review, err error) {
	defer fault.Wrap(&err, "apply on source %s", sourceID)
	d.Status = Accepted
	if err := d.validate(); err != nil {
		return suite, r, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := s.Sources.Lock(ctx, tx, c.OrgID, sourceID)
		if err != nil {
			return err
		}
		// Locks are always taken in the order source, then suite: Undo does the same.
		r, err = reviewOf(ctx, tx, src, d.SuggestionID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if r.AppliedSuiteID != nil && *r.AppliedSuiteID == suiteID {
			suite, err = s.appendCase(ctx, tx, c, src, r.Decision, suiteID)
			return err
		}
		if suite, err = s.appendCase(ctx, tx, c, src, d, suiteID); err != nil {
			return err
		}
		r, err = saveReview(ctx, tx, src, newApplied(c, src, d, suite.ID))
		return err
	})
	return suite, r, err
}

func (s *Service) appendCase(
	ctx context.Context, tx *store.Tx, c access.Caller, src sources.Source, d Decision, suiteID string,
) (suites.Suite, error) {
	raw, err := d.triggerCase()
	if err != nil {
		return suites.Suite{}, err
	}
	suite, _, err := s.Suites.Append(ctx, tx, c, src.ID, suiteID, raw)
	return suite, err
}

// saveReview upserts a review. One that replaces another keeps the other's id.
func saveReview(ctx context.Context, tx *store.Tx, src sources.Source, r Review) (Review, error) {
	id, err := upsertReview(ctx, tx, r)
	if err != nil {
		return r, err
	}
	r.ID = id
	if err := setReviewed(ctx, tx, src, r.SuggestionID, true); err != nil {
		return r, err
	}
	return r, src.Audit(ctx, tx, "sources.review.set", audit.Detail{
		"suggestion": r.SuggestionID, "status": r.Status, "accept_target": r.AcceptTarget, "suite": r.AppliedSuiteID,
	})
}

// Clear deletes the review of a suggestion, which becomes pending again if
// there is still evidence for it.
func (s *Service) Clear(ctx context.Context, orgID, sourceID, suggestionID string) (err error) {
	defer fault.Wrap(&err, "clear review on source %s", sourceID)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := s.Sources.Lock(ctx, tx, orgID, sourceID)
		if err != nil {
			return err
		}
		return s.clear(ctx, tx, src, suggestionID)
	})
}

func (s *Service) clear(ctx context.Context, tx *store.Tx, src sources.Source, suggestionID string) error {
	found, err := deleteReview(ctx, tx, src, suggestionID)
	if err != nil {
		return err
	}
	if !found {
		return fault.New(fault.NotFound, "Review not found")
	}
	if err := setReviewed(ctx, tx, src, suggestionID, false); err != nil {
		return err
	}
	if err := src.Audit(ctx, tx, "sources.review.clear", audit.Detail{"suggestion": suggestionID}); err != nil {
		return err
	}
	// A suite may have the case by now: then it must not be suggested again.
	return s.Suggest(ctx, tx, src.OrgID, src.ID)
}

// Undo clears a review and removes its case from the suite that it was applied
// to. Gone is false if the suite kept the case because it is its last.
func (s *Service) Undo(ctx context.Context, c access.Caller, sourceID, suggestionID string) (gone bool, err error) {
	defer fault.Wrap(&err, "undo review on source %s", sourceID)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := s.Sources.Lock(ctx, tx, c.OrgID, sourceID)
		if err != nil {
			return err
		}
		gone, err = s.undo(ctx, tx, c, src, suggestionID)
		return err
	})
	return gone, err
}

func (s *Service) undo(
	ctx context.Context, tx *store.Tx, c access.Caller, src sources.Source, suggestionID string,
) (gone bool, err error) {
	r, err := reviewOf(ctx, tx, src, suggestionID)
	if err != nil {
		return false, err
	}
	if gone = true; r.AppliedSuiteID != nil {
		raw, err := r.triggerCase()
		if err != nil {
			return false, err
		}
		if gone, err = s.Suites.Remove(ctx, tx, c, *r.AppliedSuiteID, raw); err != nil {
			return false, err
		}
	}
	return gone, s.clear(ctx, tx, src, suggestionID)
}
