package costs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
)

// Register makes the queue run the jobs of costs.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args reprice) error { return s.reprice(ctx, args.OrgID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ adopt) error { return s.adopt(ctx) })
	s.Jobs.Every(24*time.Hour, adopt{}, jobs.RunOnStart())
}

// reprice is the job of Service.reprice.
type reprice struct {
	OrgID string `json:"org_id"`
}

// Kind names the job.
func (reprice) Kind() string { return "costs.reprice" }

// adopt is the job of Service.adopt.
type adopt struct{}

// Kind names the job.
func (adopt) Kind() string { return "costs.adopt-prices" }
