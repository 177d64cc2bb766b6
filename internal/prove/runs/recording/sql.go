package recording

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const columns = `r.id, r.run_id, r.case_id, r.variant, r.n, r.blob_key, r.sha256, r.bytes`

func scanRef(row store.Row) (r Ref, err error) {
	err = row.Scan(&r.ID, &r.RunID, &r.CaseID, &r.Variant, &r.N, &r.Blob.Key, &r.Blob.SHA256, &r.Blob.Size)
	return r, err
}

// Insert stores the rows of recordings, in the transaction that stores their trials.
func Insert(ctx context.Context, tx *store.Tx, refs []Ref) error {
	if len(refs) == 0 {
		return nil
	}
	n := len(refs)
	ids, runs, cases, variants := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	keys, sums, numbers, sizes := make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)
	for i, r := range refs {
		ids[i], runs[i], cases[i], variants[i] = r.ID, r.RunID, r.CaseID, r.Variant
		keys[i], sums[i], numbers[i], sizes[i] = r.Blob.Key, r.Blob.SHA256, int64(r.N), r.Blob.Size
	}
	_, err := store.Bulk{
		Table: "eval_trial_recordings",
		Columns: []store.Column{
			store.Col("id", ids), store.Col("run_id", runs), store.Col("case_id", cases), store.Col("variant", variants),
			store.Col("n", numbers), store.Col("blob_key", keys), store.Col("sha256", sums), store.Col("bytes", sizes),
		},
	}.Insert(ctx, tx)
	return err
}

// Find returns the recording with this id if it is of the organisation's runs, or a
// NotFound.
func (s *Store) Find(ctx context.Context, orgID, id string) (Ref, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT `+columns+` FROM eval_trial_recordings r JOIN eval_runs e ON e.id = r.run_id
		WHERE r.id = $1 AND e.org_id = $2`, id, orgID)
	return store.One(rows, err, "Session", scanRef)
}

// FindAll returns recordings of the organisation's runs by id; what is missing is left out.
func FindAll(ctx context.Context, q store.Querier, orgID string, ids []string) (map[string]Ref, error) {
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM eval_trial_recordings r JOIN eval_runs e ON e.id = r.run_id
		WHERE r.id`+in+` AND e.org_id = $2`, list, orgID)
	all := map[string]Ref{}
	return all, store.Each(rows, err, func(row store.Row) error {
		r, err := scanRef(row)
		all[r.ID] = r
		return err
	})
}

// referenced returns which of the blob keys have a row. It tells Sweep what is alive.
func referenced(ctx context.Context, q store.Querier, keys []string) ([]string, error) {
	in, list := q.Dialect().In("$1", keys)
	rows, err := q.Query(ctx, `SELECT blob_key FROM eval_trial_recordings WHERE blob_key`+in, list)
	return store.All(rows, err, store.Value[string])
}

// References calls fn with the blob of every recording, of all organisations, for
// backups and the doctor.
func (s *Store) References(ctx context.Context, q store.Querier, fn func(blob.Ref) error) error {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM eval_trial_recordings r`)
	return store.Each(rows, err, func(row store.Row) error {
		r, err := scanRef(row)
		if err != nil {
			return err
		}
		return fn(r.Blob)
	})
}
