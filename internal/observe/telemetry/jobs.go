package telemetry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// eraseRaw is the job that deletes the raw bodies of one user.
type eraseRaw struct {
	OrgID  string    `json:"org_id"`
	UserID string    `json:"user_id"`
	Before time.Time `json:"before"`
}

// Kind names the job.
func (eraseRaw) Kind() string { return "telemetry.erase-raw" }

// retain is the job that enforces the retention: it deletes raw telemetry that
// has expired.
type retain struct{}

// Kind names the job.
func (retain) Kind() string { return "telemetry.retain" }

// sweep is the garbage collection of raw bodies whose push was never committed.
type sweep struct{}

// Kind names the job.
func (sweep) Kind() string { return "telemetry.sweep" }

// Register makes the queue run the jobs of telemetry.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args eraseRaw) error {
		if err := s.removeRaw(ctx, "user_id = $1 AND received_at <= $2", args.UserID, store.Micros(args.Before)); err != nil {
			return err
		}
		return s.removeOrphans(ctx, rawPrefix+args.OrgID+"/"+args.UserID+"/", args.Before)
	})
	jobs.Handle(s.Jobs, func(ctx context.Context, _ retain) error { return s.retain(ctx) })
	s.Jobs.Every(time.Hour, retain{})
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweep) error {
		return s.removeOrphans(ctx, rawPrefix, time.Now().Add(-max(s.Retention, blob.OrphanAge)))
	})
	s.Jobs.Every(24*time.Hour, sweep{})
	s.plugins().Register()
}

// retain deletes raw telemetry that is older than the retention. The numbers
// derived from it stay.
func (s *Service) retain(ctx context.Context) error {
	before := store.Now().Add(-s.Retention)
	if err := s.Expire(ctx, before); err != nil {
		return err
	}
	if err := s.Sessions.Expire(ctx, before); err != nil {
		return err
	}
	// Blobs are deleted outside the transaction, which cannot roll that back.
	return s.removeRaw(ctx, "received_at < $1", store.Micros(before))
}

// removeRaw deletes the raw bodies of the pushes that match a condition, in
// batches. It may run twice: a key is cleared only after its blob is deleted.
func (s *Service) removeRaw(ctx context.Context, condition string, args ...any) error {
	for {
		pushes, err := rawBodies(ctx, s.DB, condition, args)
		if err != nil || len(pushes) == 0 {
			return err
		}
		ids := make([]string, len(pushes))
		for i, p := range pushes {
			if err := s.Blobs.Delete(ctx, p.key); err != nil {
				return err
			}
			ids[i] = p.pushID
		}
		if err := s.DB.InTx(ctx, func(tx *store.Tx) error { return s.releaseQuota(ctx, tx, ids) }); err != nil {
			return err
		}
	}
}

// releaseQuota records that the raw bodies of pushes are deleted, and gives their
// bytes back to the organisations' quotas.
func (s *Service) releaseQuota(ctx context.Context, tx *store.Tx, pushIDs []string) error {
	freed, err := clearBlobKeys(ctx, tx, pushIDs)
	if err != nil {
		return err
	}
	for _, orgID := range sortedKeys(freed) { // a fixed lock order avoids deadlocks
		if err := s.Quota.Add(ctx, tx, orgID, quota.Telemetry, -freed[orgID]); err != nil {
			return err
		}
	}
	return nil
}

// removeOrphans deletes raw bodies by their own age: those of pushes that were
// never committed have no row that removeRaw could find.
func (s *Service) removeOrphans(ctx context.Context, prefix string, before time.Time) error {
	_, err := blob.Sweep{Bucket: s.Blobs, Prefix: prefix, MinAge: time.Since(before)}.Run(ctx)
	return err
}
