package alerts

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
)

// evaluateOrg is the job that evaluates one organisation after ingest. It waits
// until DueAt itself, since jobs.At may start it seconds late.
type evaluateOrg struct {
	OrgID string    `json:"org_id"`
	DueAt time.Time `json:"due_at"`
}

// Kind names the job.
func (evaluateOrg) Kind() string { return "alerts.evaluate" }

// evaluateAll is the scheduled job that evaluates the organisations that are due.
type evaluateAll struct{}

// Kind names the job.
func (evaluateAll) Kind() string { return "alerts.evaluate-all" }

// deliver is the job that sends one notification.
type deliver struct {
	DeliveryID string `json:"delivery_id"`
}

// Kind names the job.
func (deliver) Kind() string { return "alerts.deliver" }

// Register makes the queue run the jobs of alerts.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args evaluateOrg) error {
		// DueAt is by the enqueuer's clock. If that runs ahead, at most the
		// debounce is waited for.
		if wait := time.Until(args.DueAt); wait > 0 && wait <= debounce {
			return jobs.Snooze(wait)
		}
		return s.Evaluate(ctx, args.OrgID)
	})
	jobs.Handle(s.Jobs, func(ctx context.Context, _ evaluateAll) error { return s.EvaluateDue(ctx) })
	jobs.Handle(s.Jobs, func(ctx context.Context, args deliver) error { return s.outbox().Deliver(ctx, args.DeliveryID) },
		jobs.Timeout(time.Minute))
	s.Jobs.Every(s.Interval, evaluateAll{})
}
