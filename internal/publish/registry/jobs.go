package registry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
)

// Register makes the queue run the registry's jobs.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args removeBlobs) error { return s.removeBlobs(ctx, args.Keys) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweepBlobs) error { return s.sweepBlobs(ctx) }, jobs.Timeout(time.Hour))
	jobs.Handle(s.Jobs, func(context.Context, recountBlobs) error { return nil })
	s.Jobs.Every(blob.OrphanAge, sweepBlobs{})
}

// removeBlobs is the job that deletes the objects of deleted versions.
type removeBlobs struct {
	Keys []string `json:"keys"`
}

// Kind names the job.
func (removeBlobs) Kind() string { return "registry.remove-blobs" }

// sweepBlobs is the job that deletes the objects of pushes that died before
// their commit.
type sweepBlobs struct{}

// Kind names the job.
func (sweepBlobs) Kind() string { return "registry.sweep-blobs" }

// recountBlobs is a job of versions before schema 33, which may have left one
// in the queue. It does nothing.
type recountBlobs struct{}

// Kind names the job.
func (recountBlobs) Kind() string { return "registry.recount-blobs" }
