package httpapi

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// countRequest returns how many requests the window has with this one.
func countRequest(ctx context.Context, db *store.DB, subject string, start, end time.Time) (int, error) {
	return store.Returning(ctx, db, "Rate window", store.Value[int], `
		INSERT INTO rate_windows (subject, starts_at, ends_at, requests) VALUES ($1, $2, $3, 1)
		ON CONFLICT (subject, starts_at) DO UPDATE SET requests = rate_windows.requests + 1
		RETURNING requests`, subject, store.Micros(start), store.Micros(end))
}

func deleteOverWindows(ctx context.Context, q store.Querier, before time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM rate_windows WHERE ends_at < $1`, store.Micros(before))
	return err
}
