package suggestions

import (
	"cmp"
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// A Ref names a suggestion of a source.
type Ref struct{ SourceID, SuggestionID string }

// bySource groups refs by their source. Its order is that in which sources are locked.
func bySource(refs []Ref) (groups [][]Ref) {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.SourceID, b.SourceID), cmp.Compare(a.SuggestionID, b.SuggestionID))
	})
	for i, r := range slices.Compact(refs) {
		if i == 0 || groups[len(groups)-1][0].SourceID != r.SourceID {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], r)
	}
	return groups
}

// ReviewSeveral records one decision on several suggestions in one transaction; accepted
// ones become drafts. It returns how many it decided on: the others were reviewed
// meanwhile, or have no evidence any more. The reviews share their time, by which Undo
// of the pages finds them together.
func (s *Service) ReviewSeveral(ctx context.Context, c access.Caller, refs []Ref, status Status) (done int, err error) {
	defer fault.Wrap(&err, "review several")
	at := store.Now()
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		done = 0
		for _, group := range bySource(refs) {
			src, err := s.Sources.Lock(ctx, tx, c.OrgID, group[0].SourceID)
			if err != nil {
				return err
			}
			ids := make([]string, len(group))
			for i, r := range group {
				ids[i] = r.SuggestionID
			}
			found, err := pendingByID(ctx, tx, src, ids)
			if err != nil {
				return err
			}
			pending, err := withTexts(ctx, tx, src, found)
			if err != nil {
				return err
			}
			for _, p := range pending {
				r := newReview(c, src, p.decision(status))
				r.ReviewedAt = at
				if status == Accepted {
					target := Draft
					r.AcceptTarget = &target
				}
				if _, err := saveReview(ctx, tx, src, r); err != nil {
					return err
				}
				done++
			}
		}
		return nil
	})
	return done, err
}

// withTexts reads the queries that are prompts of telemetry, and leaves out suggestions
// whose prompt was erased since they were derived.
func withTexts(ctx context.Context, q store.Querier, src sources.Source, found []Suggestion) ([]Suggestion, error) {
	var refs []string
	for _, p := range found {
		if p.Ref != nil {
			refs = append(refs, *p.Ref)
		}
	}
	if len(refs) == 0 {
		return found, nil
	}
	texts, err := telemetry.PromptTexts(ctx, q, src.OrgID, refs)
	if err != nil {
		return nil, err
	}
	for i, p := range found {
		if p.Ref != nil {
			found[i].Query = texts[*p.Ref]
		}
	}
	return slices.DeleteFunc(found, func(p Suggestion) bool { return p.Query == "" }), nil
}

// decision is a decision on the suggestion as it is.
func (p Suggestion) decision(status Status) Decision {
	count := float64(p.ObservedCount)
	return Decision{
		SuggestionID: p.ID, Status: status, Query: p.Query, ShouldTrigger: p.ShouldTrigger, Evidence: p.Provenance.evidence(),
		Provenance: p.Provenance, Rationale: &p.Rationale, ObservedCount: &count, Confidence: &p.Confidence,
		LastObservedAt: &p.LastObservedAt, InvocationType: p.InvocationType,
	}
}

// UndoSeveral undoes reviews as Undo does, in one transaction.
func (s *Service) UndoSeveral(ctx context.Context, c access.Caller, refs []Ref) (err error) {
	defer fault.Wrap(&err, "undo several reviews")
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		for _, group := range bySource(refs) {
			src, err := s.Sources.Lock(ctx, tx, c.OrgID, group[0].SourceID)
			if err != nil {
				return err
			}
			for _, r := range group {
				if _, err := s.undo(ctx, tx, c, src, r.SuggestionID); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
