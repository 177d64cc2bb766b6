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

// process handles one delivery.
type process struct {
	DeliveryID string `json:"delivery_id"`
}

// Kind names the job.
func (process) Kind() string { return "repohost.process" }

// publish publishes the queued attempts of one connection.
type publish struct {
	ConnectionID string `json:"connection_id"`
}

// Kind names the job.
func (publish) Kind() string { return "repohost.publish" }

// reconcile compares one connection with its repository.
type reconcile struct {
	ConnectionID string `json:"connection_id"`
}

// Kind names the job.
func (reconcile) Kind() string { return "repohost.reconcile" }

// reconcileAll enqueues reconcile for every connection that is due.
type reconcileAll struct{}

// Kind names the job.
func (reconcileAll) Kind() string { return "repohost.reconcile-all" }

// writeBack reports one attempt to the code host.
type writeBack struct {
	AttemptID string `json:"attempt_id"`
}

// Kind names the job.
func (writeBack) Kind() string { return "repohost.write-back" }

// expireDeliveries applies the retention of deliveries.
type expireDeliveries struct{}

// Kind names the job.
func (expireDeliveries) Kind() string { return "repohost.forget-deliveries" }

const (
	// maxRuns limits the starts of a job. It's far above the number of tries, which the
	// attempts count themselves: starts that a crash cuts short, or that only wait for a
	// lease, mustn't use them up.
	maxRuns = 1000
	// retention of deliveries, for dedup and redelivery. It's longer than any code host
	// offers to redeliver.
	retention = 30 * 24 * time.Hour
	// publishTimeout suffices for the largest archive over a slow line.
	publishTimeout = 10 * time.Minute
)

// Register registers the jobs and their schedules.
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

// enqueuePublish enqueues the publish job of a connection, if it isn't queued already.
func (s *Service) enqueuePublish(ctx context.Context, tx *store.Tx, connectionID, orgID string) error {
	return s.Jobs.Enqueue(ctx, tx, publish{ConnectionID: connectionID},
		jobs.Unique(connectionID), jobs.Attempts(maxRuns), jobs.For(orgID))
}

// enqueueWriteBack enqueues the report of an attempt, if it isn't queued already.
func (s *Service) enqueueWriteBack(ctx context.Context, tx *store.Tx, attemptID, orgID string) error {
	return s.Jobs.Enqueue(ctx, tx, writeBack{AttemptID: attemptID},
		jobs.Unique(attemptID), jobs.Attempts(maxRuns), jobs.For(orgID))
}

// defaultBackoff are the waits after the first and later failures of the code host.
// They're longer than those of the queue (jobs.Exponential), since outages and rate
// limits last minutes to hours.
var defaultBackoff = []time.Duration{
	10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
}

// backoff returns the override of tests, or the default.
func (s *Service) backoff() []time.Duration {
	if s.Backoff != nil {
		return s.Backoff
	}
	return defaultBackoff
}

// backoffAfter is the wait after the given try, from 1. The last wait repeats.
func (s *Service) backoffAfter(try int) time.Duration {
	all := s.backoff()
	return all[min(try, len(all))-1]
}

// retryAfter returns the error that makes a job retry after the wait, or after the code
// host's Retry-After if that is longer.
func retryAfter(cause error, wait time.Duration) error {
	if f, ok := errors.AsType[*fault.Error](cause); ok {
		wait = max(wait, f.RetryAfter)
	}
	return jobs.RetryAfter(wait, cause)
}

// isTransient reports whether a failed request to the code host is worth a retry.
func isTransient(err error) bool {
	return slices.Contains([]fault.Kind{fault.BadGateway, fault.Limited, fault.Unavailable, fault.Internal}, fault.Of(err))
}

// userMessage is the part of an error that users may see, e.g. in an attempt.
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
