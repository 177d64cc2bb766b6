package suggestions

import (
	"context"
	"maps"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

const suggestionColumns = `id, prompt_ref, COALESCE(query, ''), should_trigger, provenance, rationale, observed_count, confidence,
	last_observed_at, invocation_type`

func scanSuggestion(row store.Row) (s Suggestion, err error) {
	err = row.Scan(&s.ID, &s.Ref, &s.Query, &s.ShouldTrigger, &s.Provenance, &s.Rationale, &s.ObservedCount, &s.Confidence,
		store.Time(&s.LastObservedAt), &s.InvocationType)
	return s, err
}

// pendingOf returns a page of the suggestions without a review, the best
// first, and the number of all. The order is total, so pages don't overlap.
func pendingOf(ctx context.Context, q store.Querier, src sources.Source, limit, offset int) ([]Suggestion, int, error) {
	return store.List[Suggestion]{
		Columns: suggestionColumns, From: `FROM source_suggestions WHERE org_id = $1 AND source_id = $2 AND NOT reviewed`,
		Order: `confidence DESC, observed_count DESC, last_observed_at DESC, id DESC`, Scan: scanSuggestion,
	}.Page(ctx, q, store.Page{Limit: limit, Offset: offset}, src.OrgID, src.ID)
}

// pendingByID returns those of the suggestions that have no review, the best first.
func pendingByID(ctx context.Context, q store.Querier, src sources.Source, ids []string) ([]Suggestion, error) {
	in, list := q.Dialect().In("$3", ids)
	rows, err := q.Query(ctx, `
		SELECT `+suggestionColumns+` FROM source_suggestions
		WHERE org_id = $1 AND source_id = $2 AND NOT reviewed AND id`+in+`
		ORDER BY confidence DESC, observed_count DESC, last_observed_at DESC, id DESC`, src.OrgID, src.ID, list)
	return store.All(rows, err, scanSuggestion)
}

// replaceSuggestions makes wanted the suggestions of a locked source. It writes
// only the difference: most derivations change little. Reviews are kept also for suggestions that
// are gone: they may come back.
func replaceSuggestions(ctx context.Context, tx *store.Tx, src sources.Source, wanted []Suggestion) error {
	rows, err := tx.Query(ctx, `
		SELECT `+suggestionColumns+` FROM source_suggestions WHERE org_id = $1 AND source_id = $2`, src.OrgID, src.ID)
	known, err := store.All(rows, err, scanSuggestion)
	if err != nil {
		return err
	}
	gone := make(map[string]Suggestion, len(known))
	for _, k := range known {
		gone[k.ID] = k
	}
	var changed []Suggestion
	for _, w := range wanted {
		if k, ok := gone[w.ID]; !ok || !k.equal(w) {
			changed = append(changed, w)
		}
		delete(gone, w.ID)
	}
	if len(gone) > 0 {
		in, list := tx.Dialect().In("$3", slices.Collect(maps.Keys(gone)))
		_, err := tx.Exec(ctx, `
			DELETE FROM source_suggestions WHERE org_id = $1 AND source_id = $2 AND id`+in, src.OrgID, src.ID, list)
		if err != nil {
			return err
		}
	}
	return upsertSuggestions(ctx, tx, src, changed)
}

// equal compares what is stored of two suggestions with one id. The id covers the query and the
// expectation.
func (s Suggestion) equal(o Suggestion) bool {
	return equalText(s.Ref, o.Ref) && s.Query == o.Query && s.Provenance == o.Provenance && s.Rationale == o.Rationale &&
		s.ObservedCount == o.ObservedCount && s.Confidence == o.Confidence &&
		s.LastObservedAt.Equal(o.LastObservedAt) && equalText(s.InvocationType, o.InvocationType)
}

func equalText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// upsertSuggestions also sets the flag reviewed, from the reviews: a suggestion that was reviewed,
// disappeared and came back must not be pending.
func upsertSuggestions(ctx context.Context, tx *store.Tx, src sources.Source, all []Suggestion) error {
	if len(all) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT suggestion_id FROM source_reviews WHERE org_id = $1 AND source_id = $2`, src.OrgID, src.ID)
	ids, err := store.All(rows, err, store.Value[string])
	reviewed := make(map[string]bool, len(ids))
	for _, id := range ids {
		reviewed[id] = true
	}
	if err != nil {
		return err
	}
	_, err = store.Bulk{
		Table: "source_suggestions",
		Columns: []store.Column{
			column("id", all, func(s Suggestion) string { return s.ID }),
			column("org_id", all, func(Suggestion) string { return src.OrgID }),
			column("source_id", all, func(Suggestion) string { return src.ID }),
			column("prompt_ref", all, func(s Suggestion) *string { return s.Ref }),
			column("query", all, Suggestion.storedQuery),
			column("should_trigger", all, func(s Suggestion) bool { return s.ShouldTrigger }),
			column("evidence", all, func(s Suggestion) string { return string(s.Provenance.evidence()) }),
			column("provenance", all, func(s Suggestion) string { return string(s.Provenance) }),
			column("rationale", all, func(s Suggestion) string { return s.Rationale }),
			column("observed_count", all, func(s Suggestion) int64 { return int64(s.ObservedCount) }),
			column("confidence", all, func(s Suggestion) float64 { return s.Confidence }),
			column("last_observed_at", all, func(s Suggestion) int64 { return store.Micros(s.LastObservedAt) }),
			column("invocation_type", all, func(s Suggestion) *string { return s.InvocationType }),
			column("reviewed", all, func(s Suggestion) bool { return reviewed[s.ID] }),
		},
		OnConflict: `ON CONFLICT (id) DO UPDATE SET prompt_ref = excluded.prompt_ref, query = excluded.query,
			evidence = excluded.evidence, provenance = excluded.provenance, rationale = excluded.rationale,
			observed_count = excluded.observed_count, confidence = excluded.confidence,
			last_observed_at = excluded.last_observed_at, invocation_type = excluded.invocation_type`,
	}.Insert(ctx, tx)
	return err
}

// storedQuery is nil for a prompt of telemetry, which is not copied: erasing it
// there must be enough.
func (s Suggestion) storedQuery() *string {
	if s.Ref != nil {
		return nil
	}
	return &s.Query
}

func column[T string | *string | int64 | float64 | bool](
	name string, all []Suggestion, value func(Suggestion) T,
) store.Column {
	values := make([]T, len(all))
	for i, s := range all {
		values[i] = value(s)
	}
	return store.Col(name, values)
}

// setReviewed sets the flag of a suggestion, if it exists, that it has a review. The flag is a copy
// for the index of pending ones; Check compares it.
func setReviewed(ctx context.Context, tx *store.Tx, src sources.Source, suggestionID string, reviewed bool) error {
	_, err := tx.Exec(ctx, `UPDATE source_suggestions SET reviewed = $4 WHERE org_id = $1 AND source_id = $2 AND id = $3`,
		src.OrgID, src.ID, suggestionID, reviewed)
	return err
}

const reviewColumns = `id, org_id, source_id, suggestion_id, review_status, accept_target, applied_suite_id,
	query, should_trigger, evidence, provenance, rationale, observed_count, confidence, last_observed_at,
	invocation_type, reviewed_by, reviewed_at, applied_at`

func scanReview(row store.Row) (r Review, err error) {
	err = row.Scan(&r.ID, &r.OrgID, &r.SourceID, &r.SuggestionID, &r.Status, &r.AcceptTarget, &r.AppliedSuiteID, &r.Query,
		&r.ShouldTrigger, &r.Evidence, &r.Provenance, &r.Rationale, &r.ObservedCount, &r.Confidence,
		store.NullTime(&r.LastObservedAt), &r.InvocationType, &r.ReviewedBy, store.Time(&r.ReviewedAt),
		store.NullTime(&r.AppliedAt))
	return r, err
}

func reviewOf(ctx context.Context, q store.Querier, src sources.Source, suggestionID string) (Review, error) {
	rows, err := q.Query(ctx, `
		SELECT `+reviewColumns+` FROM source_reviews WHERE org_id = $1 AND source_id = $2 AND suggestion_id = $3`,
		src.OrgID, src.ID, suggestionID)
	return store.One(rows, err, "Review", scanReview)
}

// reviewsOf returns a page of the reviews of a source, newest first, and the
// number of all; only those with the status, unless it is "".
func reviewsOf(
	ctx context.Context, q store.Querier, src sources.Source, status Status, limit, offset int,
) ([]Review, int, error) {
	return store.List[Review]{
		Columns: reviewColumns, Order: `reviewed_at DESC, id DESC`, Scan: scanReview,
		From: `FROM source_reviews WHERE org_id = $1 AND source_id = $2 AND ($3 = '' OR review_status = $3)`,
	}.Page(ctx, q, store.Page{Limit: limit, Offset: offset}, src.OrgID, src.ID, status)
}

// acceptedOf returns the reviews that accepted a case, those that were applied last at the end.
func acceptedOf(ctx context.Context, q store.Querier, src sources.Source) ([]Review, error) {
	rows, err := q.Query(ctx, `
		SELECT `+reviewColumns+` FROM source_reviews WHERE org_id = $1 AND source_id = $2 AND review_status = $3
		ORDER BY COALESCE(applied_at, 0), reviewed_at, id`, src.OrgID, src.ID, Accepted)
	return store.All(rows, err, scanReview)
}

// draftsOf counts the drafts of a source.
func draftsOf(ctx context.Context, q store.Querier, src sources.Source) (int, error) {
	rows, err := q.Query(ctx, `SELECT COUNT(*) FROM source_reviews WHERE org_id = $1 AND source_id = $2 AND accept_target = $3`,
		src.OrgID, src.ID, Draft)
	return store.One(rows, err, "Count", store.Value[int])
}

// upsertReview stores a review and returns its id: that of the review of the
// same suggestion that it replaces, if there is one. The last review of a suggestion counts; its id
// stays, since clients may hold it.
func upsertReview(ctx context.Context, tx *store.Tx, r Review) (string, error) {
	rows, err := tx.Query(ctx, `
		INSERT INTO source_reviews (`+reviewColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
		ON CONFLICT (source_id, suggestion_id) DO UPDATE SET review_status = excluded.review_status,
			accept_target = excluded.accept_target, applied_suite_id = excluded.applied_suite_id, query = excluded.query,
			should_trigger = excluded.should_trigger, evidence = excluded.evidence, provenance = excluded.provenance,
			rationale = excluded.rationale, observed_count = excluded.observed_count, confidence = excluded.confidence,
			last_observed_at = excluded.last_observed_at, invocation_type = excluded.invocation_type,
			reviewed_by = excluded.reviewed_by, reviewed_at = excluded.reviewed_at, applied_at = excluded.applied_at
		RETURNING id`,
		r.ID, r.OrgID, r.SourceID, r.SuggestionID, r.Status, r.AcceptTarget, r.AppliedSuiteID, r.Query, r.ShouldTrigger,
		r.Evidence, r.Provenance, r.Rationale, r.ObservedCount, r.Confidence, store.NullMicros(r.LastObservedAt),
		r.InvocationType,
		r.ReviewedBy, store.Micros(r.ReviewedAt), store.NullMicros(r.AppliedAt))
	return store.One(rows, err, "Review", store.Value[string])
}

func deleteReview(ctx context.Context, tx *store.Tx, src sources.Source, suggestionID string) (bool, error) {
	n, err := tx.Exec(ctx, `DELETE FROM source_reviews WHERE org_id = $1 AND source_id = $2 AND suggestion_id = $3`,
		src.OrgID, src.ID, suggestionID)
	return n > 0, err
}

// DeleteOfSource implements sources.OnSourceDeleted.
func (s *Service) DeleteOfSource(ctx context.Context, tx *store.Tx, src sources.Source) error {
	_, err := tx.Exec(ctx, `DELETE FROM source_reviews WHERE org_id = $1 AND source_id = $2`, src.OrgID, src.ID)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM source_suggestions WHERE org_id = $1 AND source_id = $2`, src.OrgID, src.ID)
	return err
}
