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

// Sweep deletes the counts of past windows. It runs on a schedule.
func (a *API) Sweep(ctx context.Context) error {
	_, err := a.limiter.db.Exec(ctx, `DELETE FROM rate_windows WHERE ends_at < $1`, store.Micros(time.Now()))
	return err
}
