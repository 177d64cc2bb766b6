package repohost

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// process is the job that handles one delivery.
type process struct {
	DeliveryID string `json:"delivery_id"`
}

// Kind names the job.
func (process) Kind() string { return "repohost.process" }

// publish is the job that publishes what waits for one connection.
type publish struct {
	ConnectionID string `json:"connection_id"`
}

// Kind names the job.
func (publish) Kind() string { return "repohost.publish" }

// reconcile is the job that compares one connection with its repository.
type reconcile struct {
	ConnectionID string `json:"connection_id"`
}

// Kind names the job.
func (reconcile) Kind() string { return "repohost.reconcile" }

// reconcileAll is the job that does so for all connections, on schedule.
type reconcileAll struct{}

// Kind names the job.
func (reconcileAll) Kind() string { return "repohost.reconcile-all" }

// writeBack is the job that tells the code host of one attempt.
type writeBack struct {
	AttemptID string `json:"attempt_id"`
}

// Kind names the job.
func (writeBack) Kind() string { return "repohost.write-back" }

// forget is the job that removes deliveries that nobody asks for any more.
type forget struct{}

// Kind names the job.
func (forget) Kind() string { return "repohost.forget-deliveries" }

const (
	// maxRuns bounds how often a job is started. Crashes and waits use runs,
	// too, and must not use up the tries, which the attempts count themselves.
	maxRuns = 1000
	// retention is how long deliveries are kept: longer than any host offers to
	// send them again.
	retention = 30 * 24 * time.Hour
	// publishTimeout is enough for the slowest archive.
	publishTimeout = 10 * time.Minute
)

// Register makes the queue run the jobs of the code host.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args process) error { return s.process(ctx, args.DeliveryID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, args publish) error { return s.work(ctx, args.ConnectionID) },
		jobs.Timeout(publishTimeout), jobs.NeedsRoom())
	jobs.Handle(s.Jobs, func(ctx context.Context, args reconcile) error { return s.reconcile(ctx, args.ConnectionID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ reconcileAll) error { return s.ReconcileAll(ctx) })
	jobs.Handle(s.Jobs, func(ctx context.Context, args writeBack) error { return s.writeBack(ctx, args.AttemptID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ forget) error {
		return deleteDeliveries(ctx, s.DB, store.Now().Add(-retention))
	})
	s.Jobs.Every(s.Interval, reconcileAll{})
	s.Jobs.Every(24*time.Hour, forget{})
}

// schedule is the waits after the first and later failures of the code host.
var schedule = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}

// waits is the schedule in force.
func (s *Service) waits() []time.Duration {
	if s.pauses != nil {
		return s.pauses
	}
	return schedule
}

// pause is the wait after a try of that number, counted from 1.
func (s *Service) pause(try int) time.Duration {
	all := s.waits()
	return all[min(try, len(all))-1]
}

// retryLater is a job's failure that is tried again after a pause, or after
// what the code host asks for if that is longer.
func retryLater(cause error, pause time.Duration) error {
	if f, ok := errors.AsType[*fault.Error](cause); ok {
		pause = max(pause, f.RetryAfter)
	}
	return jobs.RetryAfter(pause, cause)
}

// passing reports whether an error of the code host may be over later.
func passing(err error) bool {
	return slices.Contains([]fault.Kind{fault.BadGateway, fault.Limited, fault.Unavailable, fault.Internal}, fault.Of(err))
}

// shown is what users may see of an error.
func shown(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	switch {
	case !ok || f.Kind == fault.Internal:
		return "Something went wrong here; the log says more"
	case len(f.Issues) > 0:
		return f.Issues[0].Message
	}
	return f.Message
}
