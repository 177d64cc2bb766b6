package suites

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
)

// sweepEnvironments is the garbage collection of imported environments that no
// suite refers to.
type sweepEnvironments struct{}

// Kind names the job.
func (sweepEnvironments) Kind() string { return "evals.sweep-environments" }

// Register makes the queue run the jobs of suites.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweepEnvironments) error { return s.sweep(ctx, blob.OrphanAge) })
	s.Jobs.Every(blob.OrphanAge, sweepEnvironments{})
}

// sweep deletes unreferenced environments. It spares those younger than age,
// whose suite may not be committed yet.
func (s *Service) sweep(ctx context.Context, age time.Duration) (err error) {
	defer fault.Wrap(&err, "sweep eval environments")
	for info, err := range s.Blobs.List(ctx, environmentPrefix) {
		if err != nil {
			return err
		}
		if time.Since(info.Modified) < age {
			continue
		}
		if err := s.deleteUnreferenced(ctx, info.Key, age); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) deleteUnreferenced(ctx context.Context, key string, age time.Duration) error {
	if used, err := environmentReferenced(ctx, s.DB, key); err != nil || used {
		return err
	}
	// An import may have stored the same archive again since the listing, which
	// made it young: look once more right before the delete.
	info, err := s.Blobs.Stat(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil || time.Since(info.Modified) < age {
		return err
	}
	return s.Blobs.Delete(ctx, key)
}
