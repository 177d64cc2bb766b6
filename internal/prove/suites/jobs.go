package suites

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
)

// sweepEnvironments is the job that collects the garbage of imported environments to
// which no suite refers.
type sweepEnvironments struct{}

// Kind names the job.
func (sweepEnvironments) Kind() string { return "evals.sweep-environments" }

// Register makes the queue run the jobs of suites.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweepEnvironments) error { return s.sweep(ctx, blob.OrphanAge) })
	s.Jobs.Every(blob.OrphanAge, sweepEnvironments{})
}

// sweep deletes environments that no suite refers to. Those younger than age are
// spared, since their suite may not be committed yet; importing the same archive again
// renews its age.
func (s *Service) sweep(ctx context.Context, age time.Duration) error {
	_, err := blob.Sweep{
		Bucket: s.Blobs, Prefix: environmentPrefix, MinAge: age,
		Alive: func(ctx context.Context, keys []string) ([]string, error) {
			return referencedEnvironments(ctx, s.DB, keys)
		},
	}.Run(ctx)
	return err
}
