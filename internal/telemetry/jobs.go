package telemetry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// eraseRaw is the job that removes the raw bodies of one user.
type eraseRaw struct {
	UserID string    `json:"user_id"`
	Before time.Time `json:"before"`
}

// Kind names the job.
func (eraseRaw) Kind() string { return "telemetry.erase-raw" }

// retain is the job that removes raw telemetry that is old enough.
type retain struct{}

// Kind names the job.
func (retain) Kind() string { return "telemetry.retain" }

// Register makes the queue run the jobs of telemetry.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args eraseRaw) error {
		return s.removeRaw(ctx, "user_id = $1 AND received_at <= $2", args.UserID, store.Micros(args.Before))
	})
	jobs.Handle(s.Jobs, func(ctx context.Context, _ retain) error { return s.retain(ctx) })
	s.Jobs.Every(time.Hour, retain{})
}

// retain removes what is older than the retention. The numbers stay.
func (s *Service) retain(ctx context.Context) error {
	cutoff := store.Micros(time.Now().Add(-s.Retention))
	err := s.DB.InTx(ctx, func(tx *store.Tx) error { return erase(ctx, tx, "received_at < $1", cutoff) })
	if err != nil {
		return err
	}
	return s.removeRaw(ctx, "received_at < $1", cutoff)
}

// removeRaw removes the raw bodies of pushes, a few at a time.
func (s *Service) removeRaw(ctx context.Context, condition string, args ...any) error {
	for {
		rows, err := s.DB.Query(ctx, `
			SELECT id, blob_key FROM telemetry_pushes WHERE blob_key IS NOT NULL AND `+condition+` LIMIT 100`, args...)
		pushes, err := store.All(rows, err, func(row store.Row) (p [2]string, err error) {
			err = row.Scan(&p[0], &p[1])
			return p, err
		})
		if err != nil || len(pushes) == 0 {
			return err
		}
		ids := make([]string, len(pushes))
		for i, p := range pushes {
			if err := s.Blobs.Delete(ctx, p[1]); err != nil {
				return err
			}
			ids[i] = p[0]
		}
		in, list := s.DB.Dialect().In("$1", ids)
		if _, err := s.DB.Exec(ctx, `UPDATE telemetry_pushes SET blob_key = NULL WHERE id`+in, list); err != nil {
			return err
		}
	}
}
