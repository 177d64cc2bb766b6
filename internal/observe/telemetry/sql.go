package telemetry

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// pushRow is a push whose raw body is stored.
type pushRow struct {
	pushID  string
	blobKey string
	bytes   int64 // of the inflated body
}

// insertPush inserts a push and reports whether it is new: pushes are deduplicated by the
// unique index on push_id, concurrent ones too, records in skills/alias.go, activations in
// dedup_activations.go.
func insertPush(ctx context.Context, tx *store.Tx, c access.Caller, b batch, p *pushRow) (bool, error) {
	n, err := tx.Exec(ctx, `
		INSERT INTO telemetry_pushes (id, org_id, user_id, push_id, blob_key, accepted, rejected, received_at, bytes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (org_id, push_id) DO NOTHING`,
		store.NewID(), c.OrgID, c.UserID, p.pushID, p.blobKey, b.accepted, len(b.rejected), store.Micros(time.Now()), p.bytes)
	return n == 1, err
}

// pushByID names the organisation: ids are chosen by clients, who could guess
// others'.
func pushByID(ctx context.Context, q store.Querier, orgID, pushID string) (Push, error) {
	rows, err := q.Query(ctx, `
		SELECT push_id, accepted, rejected, received_at FROM telemetry_pushes
		WHERE org_id = $1 AND push_id = $2`, orgID, pushID)
	return store.One(rows, err, "Push", func(row store.Row) (p Push, err error) {
		err = row.Scan(&p.ID, &p.Accepted, &p.Rejected, store.Time(&p.ReceivedAt))
		return p, err
	})
}

// pushCount is how often a user has pushed, and when last.
type pushCount struct {
	Count  int
	LastAt *time.Time
}

// pushesOfUser counts pushes, not records: it only tells a client that its key
// works.
func pushesOfUser(ctx context.Context, q store.Querier, userID string) (pushCount, error) {
	rows, err := q.Query(ctx, `SELECT COUNT(*), MAX(received_at) FROM telemetry_pushes WHERE user_id = $1`, userID)
	return store.One(rows, err, "Count", func(row store.Row) (p pushCount, err error) {
		err = row.Scan(&p.Count, store.NullTime(&p.LastAt))
		return p, err
	})
}

// upsertPrompts stores prompts by the hash of their natural key, merged with earlier
// reports. As with records, the caller holds the lock of the user.
func upsertPrompts(ctx context.Context, tx *store.Tx, c access.Caller, prompts []prompt) error {
	byHash := map[string]prompt{}
	for _, p := range prompts {
		hash := skills.PromptHash(c.OrgID, c.UserID, p.id)
		if earlier, ok := byHash[hash]; ok {
			p = earlier.merge(p)
		}
		byHash[hash] = p
	}
	if len(byHash) == 0 {
		return nil
	}
	// Sorted, as everywhere before a bulk statement: one order of locks.
	hashes := sortedKeys(byHash)
	inserted, err := store.Bulk{
		Table: "telemetry_prompts",
		Columns: append([]store.Column{
			store.Col("hash", hashes),
			store.Col("org_id", slices.Repeat([]string{c.OrgID}, len(hashes))),
			store.Col("user_id", slices.Repeat([]string{c.UserID}, len(hashes))),
			store.Col("prompt_id", each(hashes, func(h string) string { return byHash[h].id })),
			store.Col("received_at", slices.Repeat([]int64{store.Micros(time.Now())}, len(hashes))),
		}, promptColumns(hashes, byHash)...),
		Once: "hash", Returning: "hash",
	}.InsertReturning(ctx, tx)
	if err != nil || len(inserted) == len(hashes) {
		return err
	}
	// What is left was there before and must be merged with the stored report.
	// Nearly every prompt is new, which is why the insert comes first.
	for _, hash := range inserted {
		delete(byHash, hash)
	}
	hashes = sortedKeys(byHash)
	from, list := tx.Dialect().ByKey("telemetry_prompts", "hash", "$1", hashes)
	rows, err := tx.Query(ctx, `SELECT hash, kind, prompt_text, occurred_at, normalized_at FROM `+from, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var hash string
		var p prompt
		err := row.Scan(&hash, &p.kind, &p.text, store.Time(&p.at), store.Time(&p.normalizedAt))
		byHash[hash] = p.merge(byHash[hash])
		return err
	})
	if err != nil {
		return err
	}
	return store.BulkUpdate{
		Table: "telemetry_prompts", Key: store.Col("hash", hashes), Set: promptColumns(hashes, byHash),
	}.Run(ctx, tx)
}

// promptColumns are those that a later report may change.
func promptColumns(hashes []string, byHash map[string]prompt) []store.Column {
	return []store.Column{
		store.Col("kind", each(hashes, func(h string) string { return byHash[h].kind })),
		store.Col("prompt_text", each(hashes, func(h string) string { return byHash[h].text })),
		store.Col("occurred_at", each(hashes, func(h string) int64 { return store.Micros(byHash[h].at) })),
		store.Col("normalized_at", each(hashes, func(h string) int64 { return store.Micros(byHash[h].normalizedAt) })),
	}
}

// upsertRecords stores records, merged with earlier reports. The caller holds the
// lock of the user.
func upsertRecords(ctx context.Context, tx *store.Tx, c access.Caller, records []record) error {
	if len(records) == 0 {
		return nil
	}
	byID := map[string][]record{}
	for _, r := range records {
		byID[r.id] = append(byID[r.id], r)
	}
	// One push may report a record twice; a bulk insert must not name a key twice.
	merged := each(sortedKeys(byID), func(id string) record { return mergeRecords(byID[id]) })
	inserted, err := insertRecords(ctx, tx, c, merged)
	if err != nil {
		return err
	}
	for _, id := range inserted {
		delete(byID, id)
	}
	if len(byID) == 0 {
		return nil
	}
	from, list := tx.Dialect().ByKey("telemetry_records", "id", "$1", sortedKeys(byID))
	rows, err := tx.Query(ctx, `SELECT id, kind, body, normalized_at FROM `+from, list)
	known, err := store.All(rows, err, func(row store.Row) (r record, err error) {
		var body string
		if err := row.Scan(&r.id, &r.kind, &body, store.Time(&r.normalizedAt)); err != nil {
			return r, err
		}
		r.body = json.RawMessage(body)
		return r, nil
	})
	if err != nil {
		return err
	}
	return updateRecords(ctx, tx, each(known, func(r record) record {
		return mergeRecords(append([]record{r}, byID[r.id]...))
	}))
}

// insertRecords inserts the records that are new and returns their ids.
func insertRecords(ctx context.Context, tx *store.Tx, c access.Caller, records []record) ([]string, error) {
	return store.Bulk{
		Table: "telemetry_records",
		Columns: []store.Column{
			store.Col("id", each(records, func(r record) string { return r.id })),
			store.Col("org_id", slices.Repeat([]string{c.OrgID}, len(records))),
			store.Col("user_id", slices.Repeat([]string{c.UserID}, len(records))),
			store.Col("kind", each(records, func(r record) string { return r.kind })),
			store.Col("body", each(records, record.text)),
			store.Col("normalized_at", each(records, func(r record) int64 { return store.Micros(r.normalizedAt) })),
			store.Col("received_at", slices.Repeat([]int64{store.Micros(time.Now())}, len(records))),
		},
		Once: "id", Returning: "id",
	}.InsertReturning(ctx, tx)
}

// updateRecords replaces the body and the version; who reported it never changes.
func updateRecords(ctx context.Context, tx *store.Tx, records []record) error {
	return store.BulkUpdate{
		Table: "telemetry_records",
		Key:   store.Col("id", each(records, func(r record) string { return r.id })),
		Set: []store.Column{
			store.Col("body", each(records, record.text)),
			store.Col("normalized_at", each(records, func(r record) int64 { return store.Micros(r.normalizedAt) })),
		},
	}.Run(ctx, tx)
}

// deleteRaw deletes the prompts and records that match a condition on $1. Pushes
// stay: without them a retry of an erased push would count again.
func deleteRaw(ctx context.Context, tx *store.Tx, condition string, arg any) error {
	if _, err := tx.Exec(ctx, `DELETE FROM telemetry_prompts WHERE `+condition, arg); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM telemetry_records WHERE `+condition, arg)
	return err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// each maps a slice.
func each[A, B any](items []A, value func(A) B) []B {
	out := make([]B, len(items))
	for i, item := range items {
		out[i] = value(item)
	}
	return out
}

// References calls fn for every blob that a push refers to. The sweep deletes blobs
// that no owner refers to.
func (s *Service) References(ctx context.Context, q store.Querier, fn func(blob.Ref) error) error {
	rows, err := q.Query(ctx, `SELECT blob_key FROM telemetry_pushes WHERE blob_key IS NOT NULL`)
	return store.Each(rows, err, func(row store.Row) error {
		key, err := store.Value[string](row)
		if err != nil {
			return err
		}
		return fn(blob.Ref{Key: key})
	})
}

// A rawBody is the blob of a push.
type rawBody struct{ pushID, key string }

// Stored recounts the bytes that the raw bodies of organisations use. It is the
// truth that quotas are corrected by, if the counter has drifted.
func Stored() quota.Count {
	return quota.Count{Kind: quota.Telemetry, SQL: `
		SELECT org_id, CAST(SUM(bytes) AS BIGINT) AS bytes FROM telemetry_pushes
		WHERE blob_key IS NOT NULL GROUP BY org_id`}
}

// rawBodies returns the next 100 raw bodies that match a condition. A page is small
// since each blob takes a request to the bucket.
func rawBodies(ctx context.Context, q store.Querier, condition string, args []any) ([]rawBody, error) {
	rows, err := q.Query(ctx, `
		SELECT id, blob_key FROM telemetry_pushes WHERE blob_key IS NOT NULL AND `+condition+` LIMIT 100`, args...)
	return store.All(rows, err, func(row store.Row) (b rawBody, err error) {
		err = row.Scan(&b.pushID, &b.key)
		return b, err
	})
}

// clearBlobKeys records that raw bodies are deleted, and returns the bytes that
// this frees by organisation. A push whose key was cleared before frees none. The
// row stays for idempotency.
func clearBlobKeys(ctx context.Context, tx *store.Tx, pushIDs []string) (map[string]int64, error) {
	in, list := tx.Dialect().In("$1", pushIDs)
	freed := map[string]int64{}
	rows, err := tx.Query(ctx, `
		UPDATE telemetry_pushes SET blob_key = NULL WHERE blob_key IS NOT NULL AND id`+in+` RETURNING org_id, bytes`, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var org string
		var n int64
		err := row.Scan(&org, &n)
		freed[org] += n
		return err
	})
	return freed, err
}
