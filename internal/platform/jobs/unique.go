package jobs

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// The table job_keys has a row for every unique key whose job waits. A job
// acquires its key when it is enqueued, releases it when it starts, and
// acquires it again when it fails and must be retried.

const insertKey = `INSERT INTO job_keys (kind, unique_key) VALUES ($1, $2) ON CONFLICT DO NOTHING`

// keyLock is SQL for the number of a key's advisory lock on PostgreSQL.
const keyLock = `hashtextextended($1::TEXT || ' ' || $2::TEXT, 0)`

// acquireKey takes a unique key for a new job. It returns false if a waiting
// job has it.
//
// A job that waits must then not start before this transaction ends: it would
// not see what this transaction changes, and it is the reason why no other job
// is enqueued for that change. On SQLite the claim waits anyway, since there is
// one writer at a time. On PostgreSQL a shared advisory lock makes releaseKey
// wait; transactions that acquire the same key do not wait for each other,
// except for the one that inserts it.
func acquireKey(ctx context.Context, tx *store.Tx, kind, key string) (bool, error) {
	statement := insertKey
	if !tx.Dialect().OneWriter() {
		statement = `
			WITH lock AS (SELECT pg_advisory_xact_lock_shared(` + keyLock + `))
			INSERT INTO job_keys (kind, unique_key) SELECT $1, $2 FROM lock
			ON CONFLICT DO NOTHING`
	}
	n, err := tx.Exec(ctx, statement, kind, key)
	return n == 1, err
}

// releaseKey frees the key of a job that starts, after the transactions that
// rely on the job have ended.
func releaseKey(ctx context.Context, tx *store.Tx, kind, key string) error {
	if !tx.Dialect().OneWriter() {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+keyLock+`)`, kind, key); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `DELETE FROM job_keys WHERE kind = $1 AND unique_key = $2`, kind, key)
	return err
}
