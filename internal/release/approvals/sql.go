package approvals

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

func scanAnswer(row store.Row) (a Answer, err error) {
	var review *string
	err = row.Scan(&a.ID, &a.OrgID, &a.EntryID, &a.VersionID, &a.Decision, &a.Comment, store.Time(&a.CreatedAt),
		&a.Replaced, &review,
		&a.User.ID)
	if err != nil || review == nil {
		return a, err
	}
	a.Review = &HostReview{}
	return a, json.Unmarshal([]byte(*review), a.Review)
}

// answersTo lists what people said about a version, oldest first: comments are bounded,
// and so are the decisions of each person, who may have been removed since.
func answersTo(ctx context.Context, q store.Querier, versionID string) ([]Answer, error) {
	rows, err := q.Query(ctx, `
		SELECT a.id, a.org_id, a.entry_id, a.version_id, a.decision, a.comment, a.created_at, a.replaced_at IS NOT NULL, a.review,
			a.user_id
		FROM version_approvals a WHERE a.version_id = $1 ORDER BY a.id`, versionID)
	all, err := store.All(rows, err, scanAnswer)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i, a := range all {
		ids[i] = a.User.ID
	}
	users, err := auth.UsersByID(ctx, q, ids)
	for i := range all {
		all[i].User = users[all[i].User.ID]
	}
	return all, err
}

// countAnswers includes decisions and replaced ones, as maxAnswers does.
func countAnswers(ctx context.Context, q store.Querier, versionID string) (int, error) {
	return store.Count(ctx, q, `FROM version_approvals WHERE version_id = $1`, versionID)
}

func insertAnswer(ctx context.Context, tx *store.Tx, a Answer) error {
	var review *string
	if a.Review != nil {
		raw, err := json.Marshal(a.Review)
		if err != nil {
			return err
		}
		review = new(string(raw))
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO version_approvals (id, org_id, entry_id, version_id, user_id, decision, comment, created_at, review)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		a.ID, a.OrgID, a.EntryID, a.VersionID, a.User.ID, a.Decision, a.Comment, store.Micros(a.CreatedAt), review)
	return err
}

// sightingOf returns what the last look found; nothing if there was none.
func sightingOf(ctx context.Context, q store.Querier, versionID string) (s Sighting, err error) {
	rows, err := q.Query(ctx, `SELECT looks, found FROM candidate_reviews WHERE version_id = $1`, versionID)
	s, err = store.One(rows, err, "Reviews", func(row store.Row) (s Sighting, err error) {
		var found string
		if err := row.Scan(&s.Looks, &found); err != nil {
			return s, err
		}
		return s, json.Unmarshal([]byte(found), &s)
	})
	if fault.Is(err, fault.NotFound) {
		return Sighting{}, nil
	}
	return s, err
}

// upsertSighting stores a look. Reviews are not part of it; see the tags of Sighting.
func upsertSighting(ctx context.Context, tx *store.Tx, v registry.Version, s Sighting) error {
	found, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO candidate_reviews (version_id, org_id, looks, found, looked_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (version_id) DO UPDATE SET looks = excluded.looks, found = excluded.found, looked_at = excluded.looked_at`,
		v.ID, v.OrgID, s.Looks, string(found), store.Micros(store.Now()))
	return err
}

// replaceAnswers marks the earlier decision of the person of a new one, and forgets
// all but the newest of those before. Otherwise somebody who changes their mind in a loop would
// fill the table.
func replaceAnswers(ctx context.Context, tx *store.Tx, by Answer) error {
	_, err := tx.Exec(ctx, `
		UPDATE version_approvals SET replaced_at = $3
		WHERE version_id = $1 AND user_id = $2 AND replaced_at IS NULL AND decision <> 'comment'`,
		by.VersionID, by.User.ID, store.Micros(by.CreatedAt))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		DELETE FROM version_approvals WHERE version_id = $1 AND user_id = $2 AND replaced_at IS NOT NULL AND id NOT IN (
			SELECT id FROM version_approvals WHERE version_id = $1 AND user_id = $2 AND replaced_at IS NOT NULL
			ORDER BY id DESC LIMIT $3)`, by.VersionID, by.User.ID, maxReplaced)
	return err
}

// A candidate is a version that waits.
type candidate struct {
	entry     registry.Entry
	version   registry.Version
	approvals int
}

// candidatesWithout lists the newest candidates of the caller's organisation that the caller
// has not decided about. Those that a later push has superseded are left out. The count of
// approvals is unchecked: some may not count by now. Checking them would take a query per
// person.
func candidatesWithout(ctx context.Context, q store.Querier, c access.Caller) ([]candidate, error) {
	rows, err := q.Query(ctx, `
		SELECT e.id, e.org_id, e.name, e.current_version, v.id, v.version, v.pushed_by, v.chosen_by, v.pushed_at, v.gate_id,
			(SELECT COUNT(*) FROM version_approvals a
				WHERE a.version_id = v.id AND a.replaced_at IS NULL AND a.decision = 'approve')
		FROM registry_entries e
		JOIN registry_versions v ON v.entry_id = e.id AND v.state = 'candidate'
		LEFT JOIN registry_versions current ON current.id = e.current_version_id
		WHERE e.org_id = $1 AND (current.id IS NULL OR current.pushed_at < v.pushed_at) AND NOT EXISTS (
			SELECT 1 FROM version_approvals a
			WHERE a.version_id = v.id AND a.user_id = $2 AND a.replaced_at IS NULL AND a.decision <> 'comment')
		ORDER BY v.pushed_at DESC, v.id DESC LIMIT $3`, c.OrgID, c.UserID, maxWaiting)
	return store.All(rows, err, func(row store.Row) (w candidate, err error) {
		e, v := &w.entry, &w.version
		err = row.Scan(&e.ID, &e.OrgID, &e.Name, &e.CurrentVersion, &v.ID, &v.Version, &v.PushedBy, &v.ChosenBy,
			store.Time(&v.PushedAt), &v.GateID, &w.approvals)
		v.State, v.OrgID, v.EntryID = registry.Candidate, e.OrgID, e.ID
		return w, err
	})
}
