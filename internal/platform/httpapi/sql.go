package httpapi

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// addRequests adds requests ($4) to a window and returns its new count.
const addRequests = `
	INSERT INTO rate_windows (subject, starts_at, ends_at, requests) VALUES ($1, $2, $3, $4)
	ON CONFLICT (subject, starts_at) DO UPDATE SET requests = rate_windows.requests + excluded.requests
	RETURNING requests`

func countRequests(ctx context.Context, db *store.DB, w window, n int) (int, error) {
	return store.Returning(ctx, db, "Rate window", store.Value[int], addRequests, w.subject, w.start, w.end, n)
}

func countRequestsInTx(ctx context.Context, tx *store.Tx, w window, n int) (int, error) {
	rows, err := tx.Query(ctx, addRequests, w.subject, w.start, w.end, n)
	return store.One(rows, err, "Rate window", store.Value[int])
}

func deletePastWindows(ctx context.Context, q store.Querier, before time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM rate_windows WHERE ends_at < $1`, store.Micros(before))
	return err
}
