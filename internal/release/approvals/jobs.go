package approvals

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
)

// recount is the job of versions before, which may still be queued: it released candidates
// when their policy was lowered. They go on waiting now. A kind without a handler would fail
// and be retried, so it stays registered.
type recount struct{}

// Kind names the job.
func (recount) Kind() string { return "approvals.recount" }

// Register makes the queue run the jobs of approvals.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(context.Context, recount) error { return nil })
}
