package registry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
)

// Register registers the registry's jobs and schedules the garbage collection of objects.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args removeBlobs) error { return s.removeBlobs(ctx, args.Keys) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweepBlobs) error { return s.sweepBlobs(ctx) }, jobs.Timeout(time.Hour))
	jobs.Handle(s.Jobs, func(context.Context, recountBlobs) error { return nil })
	s.Jobs.Every(blob.OrphanAge, sweepBlobs{})
}

// removeBlobs deletes the objects of deleted versions. It's enqueued in the transaction
// that deletes them.
type removeBlobs struct {
	Keys []string `json:"keys"`
}

// Kind names the job.
func (removeBlobs) Kind() string { return "registry.remove-blobs" }

// sweepBlobs deletes objects without a version: those of pushes that crashed before their
// commit.
type sweepBlobs struct{}

// Kind names the job.
func (sweepBlobs) Kind() string { return "registry.sweep-blobs" }

// recountBlobs does nothing. It's for jobs that a release before schema 33 may have left
// in the queue.
type recountBlobs struct{}

// Kind names the job.
func (recountBlobs) Kind() string { return "registry.recount-blobs" }
