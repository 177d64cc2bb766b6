package comparisons

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const comparisonColumns = `id, org_id, suite_id, status, trials, preference, margin, max_micros, seed, result, error, created_by,
	created_at, started_at, ended_at`

func scanComparison(row store.Row) (c Comparison, err error) {
	var result *string
	err = row.Scan(&c.ID, &c.OrgID, &c.SuiteID, &c.Status, &c.Trials, &c.Preference, &c.Margin, &c.MaxMicros, &c.Seed, &result,
		&c.Error, &c.CreatedBy, store.Time(&c.CreatedAt), store.NullTime(&c.StartedAt), store.NullTime(&c.EndedAt))
	if err != nil || result == nil {
		return c, err
	}
	return c, json.Unmarshal([]byte(*result), &c.Result)
}

// comparisonByID returns a comparison with its arms. lock is "" or a locking clause.
func comparisonByID(ctx context.Context, q store.Querier, orgID, id, lock string) (c Comparison, err error) {
	rows, err := q.Query(ctx, `SELECT `+comparisonColumns+` FROM comparisons WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	if c, err = store.One(rows, err, "Comparison", scanComparison); err != nil {
		return c, err
	}
	all := []Comparison{c}
	err = addArms(ctx, q, all)
	return all[0], err
}

// newestWithNone returns the newest comparison with no skill that has succeeded, by entry; nil means
// all entries.
func newestWithNone(ctx context.Context, q store.Querier, orgID string, entryIDs []string) (map[string]string, error) {
	in, list := q.Dialect().In("$3", entryIDs)
	rows, err := q.Query(ctx, `
		SELECT a.entry_id, MAX(c.id) FROM comparisons c
			JOIN comparison_arms a ON a.comparison_id = c.id AND a.entry_id IS NOT NULL
			JOIN comparison_arms n ON n.comparison_id = c.id AND n.subject = '{}'
		WHERE c.org_id = $1 AND c.status = 'succeeded' AND ($2 OR a.entry_id`+in+`)
		GROUP BY a.entry_id`, orgID, entryIDs == nil, list)
	newest := map[string]string{}
	return newest, store.Each(rows, err, func(row store.Row) error {
		var entry, id string
		err := row.Scan(&entry, &id)
		newest[entry] = id
		return err
	})
}

// comparisonsByID returns comparisons of an organisation by id, without their arms: the result has
// those with their figures.
func comparisonsByID(ctx context.Context, q store.Querier, orgID string, of map[string]string) (map[string]Comparison, error) {
	in, list := q.Dialect().In("$2", slices.Collect(maps.Values(of)))
	rows, err := q.Query(ctx, `SELECT `+comparisonColumns+` FROM comparisons WHERE org_id = $1 AND id`+in, orgID, list)
	all, err := store.All(rows, err, scanComparison)
	byID := map[string]Comparison{}
	for _, c := range all {
		byID[c.ID] = c
	}
	return byID, err
}

// comparisonsBefore returns a page of comparisons, newest first: ids sort by time.
func comparisonsBefore(ctx context.Context, q store.Querier, orgID string, f Filter) ([]Comparison, error) {
	rows, err := q.Query(ctx, `
		SELECT `+comparisonColumns+` FROM comparisons
		WHERE org_id = $1 AND ($2 = '' OR id < $2) AND ($3 = '' OR suite_id = $3) AND ($4 = '' OR status = $4)
			AND ($5 = '' OR EXISTS (SELECT 1 FROM comparison_arms a WHERE a.comparison_id = comparisons.id AND a.entry_id = $5))
		ORDER BY id DESC LIMIT $6`, orgID, f.Before, f.SuiteID, f.Status, f.EntryID, f.Limit)
	all, err := store.All(rows, err, scanComparison)
	if err != nil {
		return nil, err
	}
	return all, addArms(ctx, q, all)
}

const armColumns = `comparison_id, position, name, subject, agent, label, run_id, conditions, reused`

// addArms reads the arms of comparisons, in their order.
func addArms(ctx context.Context, q store.Querier, all []Comparison) error {
	if len(all) == 0 {
		return nil
	}
	at, ids := map[string]int{}, make([]string, len(all))
	for i, c := range all {
		at[c.ID], ids[i] = i, c.ID
	}
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `
		SELECT `+armColumns+` FROM comparison_arms WHERE comparison_id`+in+` ORDER BY comparison_id, position`, list)
	return store.Each(rows, err, func(row store.Row) error {
		var a Arm
		var subject string
		var agent *string
		err := row.Scan(&a.comparisonID, &a.position, &a.Name, &subject, &agent, &a.Label, &a.runID, &a.conditions, &a.reused)
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(subject), &a.Subject); err != nil {
			return err
		}
		if agent != nil {
			if err := json.Unmarshal([]byte(*agent), &a.Agent); err != nil {
				return err
			}
		}
		c := &all[at[a.comparisonID]]
		c.Arms = append(c.Arms, a)
		return nil
	})
}

func insertComparison(ctx context.Context, tx *store.Tx, c Comparison) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO comparisons
			(id, org_id, suite_id, status, trials, preference, margin, max_micros, seed, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		c.ID, c.OrgID, c.SuiteID, c.Status, c.Trials, c.Preference, c.Margin, c.MaxMicros, c.Seed, c.CreatedBy,
		store.Micros(c.CreatedAt))
	return err
}

// updateComparison writes what changes; the row is locked.
func updateComparison(ctx context.Context, tx *store.Tx, c Comparison) error {
	var result *string
	if c.Result != nil {
		raw, err := json.Marshal(c.Result)
		if err != nil {
			return err
		}
		text := string(raw)
		result = &text
	}
	_, err := tx.Exec(ctx, `
		UPDATE comparisons SET status = $2, result = $3, error = $4, started_at = $5, ended_at = $6 WHERE id = $1`,
		c.ID, c.Status, result, c.Error, store.NullMicros(c.StartedAt), store.NullMicros(c.EndedAt))
	return err
}

// Insert implements runs.Purpose.
func (a Arm) Insert(ctx context.Context, tx *store.Tx) (isNew bool, err error) {
	subject, err := json.Marshal(a.Subject)
	if err != nil {
		return false, err
	}
	var agent, entryID *string
	if a.Agent != nil {
		raw, err := json.Marshal(a.Agent)
		if err != nil {
			return false, err
		}
		text := string(raw)
		agent = &text
	}
	if a.Subject.EntryID != "" {
		entryID = &a.Subject.EntryID
	}
	n, err := tx.Exec(ctx, `
		INSERT INTO comparison_arms (`+armColumns+`, entry_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT DO NOTHING`,
		a.comparisonID, a.position, a.Name, string(subject), agent, a.Label, a.runID, a.conditions, a.reused, entryID)
	return n > 0, err
}

// maxLike is how many earlier runs are looked at for one that can be reused.
const maxLike = 10

// runsLike returns the newest runs of an organisation's arms with these conditions, each once.
func runsLike(ctx context.Context, q store.Querier, orgID, conditions string, since time.Time) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT a.run_id FROM comparison_arms a JOIN comparisons c ON c.id = a.comparison_id
		WHERE c.org_id = $1 AND a.conditions = $2 AND c.created_at >= $3
		GROUP BY a.run_id ORDER BY a.run_id DESC LIMIT $4`, orgID, conditions, store.Micros(since), maxLike)
	return store.All(rows, err, store.Value[string])
}

// An answered is a row of comparison_preferences.
type answered struct {
	A, B   int
	CaseID string
	N      int
	Kind   questionKind
	Answer answer
}

func insertAnswer(ctx context.Context, q store.Querier, comparisonID string, a answered) error {
	raw, err := json.Marshal(a.Answer)
	if err != nil {
		return err
	}
	_, err = q.Exec(ctx, `
		INSERT INTO comparison_preferences (comparison_id, a, b, case_id, n, kind, answer) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT DO NOTHING`, comparisonID, a.A, a.B, a.CaseID, a.N, a.Kind, string(raw))
	return err
}

// answersOf returns what the judge has answered, or of one case, in the order of the questions.
func answersOf(ctx context.Context, q store.Querier, comparisonID, caseID string) ([]answered, error) {
	rows, err := q.Query(ctx, `
		SELECT a, b, case_id, n, kind, answer FROM comparison_preferences
		WHERE comparison_id = $1 AND ($2 = '' OR case_id = $2) ORDER BY a, b, case_id, n, kind`, comparisonID, caseID)
	return store.All(rows, err, func(row store.Row) (a answered, err error) {
		var raw string
		if err := row.Scan(&a.A, &a.B, &a.CaseID, &a.N, &a.Kind, &raw); err != nil {
			return a, err
		}
		return a, json.Unmarshal([]byte(raw), &a.Answer)
	})
}
