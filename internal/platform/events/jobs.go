package events

import (
	"context"
	"errors"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// deliver is the job that sends one event to one webhook.
type deliver struct {
	DeliveryID string `json:"delivery_id"`
}

// Kind names the job.
func (deliver) Kind() string { return "events.deliver" }

// dispatch is the scheduled job that finds deliveries without a job: those that a
// command on the server has caused.
type dispatch struct{}

// Kind names the job.
func (dispatch) Kind() string { return "events.dispatch" }

const (
	dispatchInterval = time.Minute
	maxDispatch      = 500
)

// Register makes the queue run the jobs of events.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args deliver) error { return s.outbox().Deliver(ctx, args.DeliveryID) },
		jobs.Timeout(time.Minute))
	jobs.Handle(s.Jobs, func(ctx context.Context, _ dispatch) error { return s.Dispatch(ctx) })
	s.Jobs.Every(dispatchInterval, dispatch{})
}

// Dispatch enqueues the jobs of deliveries that have none.
func (s *Service) Dispatch(ctx context.Context) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		found, err := lockUnqueued(ctx, tx, maxDispatch)
		for _, d := range found {
			err = errors.Join(err, deliveries.EnqueueJob(ctx, tx, s.Jobs, d.ID, d.OrgID))
		}
		return err
	})
}
