package repohost

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// process is the job that handles one delivery.
type process struct {
	DeliveryID string `json:"delivery_id"`
}

// Kind names the job.
func (process) Kind() string { return "repohost.process" }

// publish is the job that publishes the queued attempts of one connection.
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

// reconcileAll is the scheduled job that enqueues reconcile for all connections.
type reconcileAll struct{}

// Kind names the job.
func (reconcileAll) Kind() string { return "repohost.reconcile-all" }

// writeBack is the job that reports one attempt to the code host.
type writeBack struct {
	AttemptID string `json:"attempt_id"`
}

// Kind names the job.
func (writeBack) Kind() string { return "repohost.write-back" }

// expireDeliveries is the scheduled job that deletes old deliveries.
type expireDeliveries struct{}

// Kind names the job.
func (expireDeliveries) Kind() string { return "repohost.forget-deliveries" }

const (
	// maxRuns is how often a job is started at most. It is far above the number
	// of tries, which the attempts count themselves: runs that a crash cuts short
	// or that only wait for a lease must not use them up.
	maxRuns = 1000
	// retention is how long deliveries are kept, for dedup and for redelivery:
	// longer than any code host offers to send them again.
	retention = 30 * 24 * time.Hour
	// publishTimeout is enough for the largest archive over a slow line.
	publishTimeout = 10 * time.Minute
)

// Register makes the queue run the jobs of the code host.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args process) error { return s.processDelivery(ctx, args.DeliveryID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, args publish) error { return s.publishQueued(ctx, args.ConnectionID) },
		jobs.Timeout(publishTimeout), jobs.NeedsRoom())
	jobs.Handle(s.Jobs, func(ctx context.Context, args reconcile) error { return s.reconcile(ctx, args.ConnectionID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ reconcileAll) error { return s.ReconcileDue(ctx) })
	jobs.Handle(s.Jobs, func(ctx context.Context, args writeBack) error { return s.writeBack(ctx, args.AttemptID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ expireDeliveries) error {
		return deleteDeliveriesBefore(ctx, s.DB, store.Now().Add(-retention))
	})
	s.Jobs.Every(s.Interval, reconcileAll{})
	s.Jobs.Every(24*time.Hour, expireDeliveries{})
}

// enqueuePublish enqueues the publish job of a connection, unless it is queued.
func (s *Service) enqueuePublish(ctx context.Context, tx *store.Tx, connectionID, orgID string) error {
	return s.Jobs.Enqueue(ctx, tx, publish{ConnectionID: connectionID},
		jobs.Unique(connectionID), jobs.Attempts(maxRuns), jobs.For(orgID))
}

func (s *Service) enqueueWriteBack(ctx context.Context, tx *store.Tx, attemptID, orgID string) error {
	return s.Jobs.Enqueue(ctx, tx, writeBack{AttemptID: attemptID},
		jobs.Unique(attemptID), jobs.Attempts(maxRuns), jobs.For(orgID))
}

// defaultBackoff is the waits after the first and later failures of the code
// host. They are longer than the queue's own (jobs.Exponential).
var defaultBackoff = []time.Duration{
	10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
}

func (s *Service) backoff() []time.Duration {
	if s.Backoff != nil {
		return s.Backoff
	}
	return defaultBackoff
}

// backoffAfter is the wait after a try, counted from 1.
func (s *Service) backoffAfter(try int) time.Duration {
	all := s.backoff()
	return all[min(try, len(all))-1]
}

// retryAfter makes a job retry after the wait, or after the code host's
// Retry-After if that is longer.
func retryAfter(cause error, wait time.Duration) error {
	if f, ok := errors.AsType[*fault.Error](cause); ok {
		wait = max(wait, f.RetryAfter)
	}
	return jobs.RetryAfter(wait, cause)
}

// isTransient reports whether an error of the code host may pass.
func isTransient(err error) bool {
	return slices.Contains([]fault.Kind{fault.BadGateway, fault.Limited, fault.Unavailable, fault.Internal}, fault.Of(err))
}

// userMessage returns the part of an error that users may see.
func userMessage(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	switch {
	case !ok || f.Kind == fault.Internal:
		return "Something went wrong here; the log says more"
	case len(f.Issues) > 0:
		return f.Issues[0].Message
	}
	return f.Message
}
