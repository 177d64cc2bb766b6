package suites

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
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
// whose suite may not be committed yet. An import that stores the same archive
// again renews its age.
func (s *Service) sweep(ctx context.Context, age time.Duration) error {
	_, err := blob.Sweep{
		Bucket: s.Blobs, Prefix: environmentPrefix, MinAge: age,
		Alive: func(ctx context.Context, keys []string) ([]string, error) {
			return referencedEnvironments(ctx, s.DB, keys)
		},
	}.Run(ctx)
	return err
}
