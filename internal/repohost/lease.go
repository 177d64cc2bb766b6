package repohost

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

const (
	// leaseTime is the lease of a worker on a connection. It is renewed before
	// every attempt. If one takes longer, another worker may publish the same
	// commit, which is idempotent.
	leaseTime = 30 * time.Second
	// leasePoll is how often a lease that another worker has is tried again.
	leasePoll = 200 * time.Millisecond
	// leaseTimeout is how long a sync waits for the lease of a worker to end.
	leaseTimeout = 15 * time.Second
)

// A lease lets one worker at a time publish for a connection, so that versions
// appear in the order of the pushes. The time at which it expires identifies it:
// a worker whose lease has expired can neither renew nor release the one that
// another worker has acquired since.
type lease struct {
	connectionID string
	until        time.Time
}

// acquireLease reports false if another worker's lease has not expired, or if the
// connection is gone.
func (s *Service) acquireLease(ctx context.Context, connectionID string) (l lease, acquired bool, err error) {
	l = lease{connectionID, store.Now().Add(leaseTime)}
	acquired, err = acquireLease(ctx, s.DB, l)
	return l, acquired, err
}

// renewLease reports false if the lease has expired and another worker has one.
func (s *Service) renewLease(ctx context.Context, l *lease) (held bool, err error) {
	until := store.Now().Add(leaseTime)
	if held, err = moveLease(ctx, s.DB, *l, store.Micros(until)); held {
		l.until = until
	}
	return held, err
}

// releaseLease ends a lease. If that fails, it expires after leaseTime.
func (s *Service) releaseLease(ctx context.Context, l *lease) {
	if _, err := moveLease(context.WithoutCancel(ctx), s.DB, *l, 0); err != nil {
		s.Log.Warn("the lease on a connection was not released", "connection", l.connectionID, "error", err)
	}
}

// waitForLease acquires the lease on a connection, waiting for a worker that
// has it.
func (s *Service) waitForLease(ctx context.Context, connectionID string) (lease, error) {
	for end := time.Now().Add(leaseTimeout); ; {
		l, acquired, err := s.acquireLease(ctx, connectionID)
		if err != nil || acquired {
			return l, err
		}
		if time.Now().After(end) {
			return l, errPublishing()
		}
		select {
		case <-time.After(leasePoll):
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
}

// errPublishing is the error of a sync while a worker has the lease.
func errPublishing() error {
	return fault.New(fault.Unavailable, "The connection is publishing; try again").After(leasePoll)
}
