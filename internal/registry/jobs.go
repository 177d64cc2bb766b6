package registry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Register makes the queue run the registry's jobs.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ removeBlobs) error { return s.removeBlobs(ctx) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ recountBlobs) error { return s.recountBlobs(ctx) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweepBlobs) error { return s.sweepBlobs(ctx) }, jobs.Timeout(time.Hour))
	jobs.Handle(s.Jobs, func(ctx context.Context, _ forgetSyncs) error {
		return forgetOldSayings(ctx, s.DB, store.Now().Add(-seenEvery))
	})
	s.Jobs.Every(pushGrace, recountBlobs{})
	s.Jobs.Every(blob.OrphanAge, sweepBlobs{})
	s.Jobs.Every(time.Hour, forgetSyncs{})
}

// removeBlobs is the job that removes bytes that no version needs.
type removeBlobs struct{}

// Kind names the job.
func (removeBlobs) Kind() string { return "registry.remove-blobs" }

// recountBlobs is the job that finds uses whose push died half-way.
type recountBlobs struct{}

// Kind names the job.
func (recountBlobs) Kind() string { return "registry.recount-blobs" }

// sweepBlobs is the job that finds bytes whose push died before its commit.
type sweepBlobs struct{}

// Kind names the job.
func (sweepBlobs) Kind() string { return "registry.sweep-blobs" }

// forgetSyncs is the job that removes what clients said long ago.
type forgetSyncs struct{}

// Kind names the job.
func (forgetSyncs) Kind() string { return "registry.forget-syncs" }
