package repohost

// A lease lets only one worker at a time publish for a connection, so that versions
// appear in the order of pushes, or write to the code host about one thing. It is the
// column held_until of the thing's own table.

import (
	"context"
	"log/slog"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Times of leases. They trade how soon another worker takes over after a crash against
// work done twice.
const (
	// LeasePoll is how often a held lease is tried again.
	LeasePoll = 200 * time.Millisecond
	// ttl of a lease on a connection. It's renewed before every attempt. Should one take
	// longer, another worker may publish the same commit, which is idempotent.
	ttl = 30 * time.Second
	// writeTTL is the TTL of the other leases. It can be short: a worker that takes over
	// finds on the code host what the other one has created.
	writeTTL = 10 * time.Second
	// timeout is how long a sync waits for a worker's lease.
	timeout = 15 * time.Second
)

// A LeaseTable is a table whose rows are leased.
type LeaseTable string

// The tables.
const (
	Connections   LeaseTable = "repohost_connections"
	LeaseAttempts LeaseTable = "repohost_attempts"
	Pulls         LeaseTable = "pull_requests"
	Comments      LeaseTable = "pull_comments"
)

// ttl is longer for connections: one publication takes longer than one report.
func (t LeaseTable) ttl() time.Duration {
	if t == Connections {
		return ttl
	}
	return writeTTL
}

// A Lease is a worker's exclusive right to work on a row. Its expiry identifies it: a
// worker whose lease expired can neither renew nor release the lease that another worker
// has acquired since.
type Lease struct {
	db    *store.DB
	table LeaseTable
	id    string
	until time.Time
}

// AcquireLease tries to take the lease. It returns false if another worker's lease is valid,
// or the row is gone.
func AcquireLease(ctx context.Context, db *store.DB, table LeaseTable, id string) (l *Lease, acquired bool, err error) {
	l = &Lease{db, table, id, store.Now().Add(table.ttl())}
	acquired, err = l.insert(ctx)
	return l, acquired, err
}

// WaitForLease acquires the lease on a connection, waiting up to timeout for another worker.
func WaitForLease(ctx context.Context, db *store.DB, connectionID string) (*Lease, error) {
	for end := time.Now().Add(timeout); ; {
		l, acquired, err := AcquireLease(ctx, db, Connections, connectionID)
		if err != nil || acquired {
			return l, err
		}
		if time.Now().After(end) {
			return l, errPublishing()
		}
		select {
		case <-time.After(LeasePoll):
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
}

// errPublishing is returned to a sync while a worker holds the lease.
func errPublishing() error {
	return fault.New(fault.Unavailable, "The connection is publishing; try again").After(LeasePoll)
}

// Renew extends the lease. It returns false if it expired and another worker took it.
func (l *Lease) Renew(ctx context.Context) (held bool, err error) {
	until := store.Now().Add(l.table.ttl())
	if held, err = l.move(ctx, store.Micros(until)); held {
		l.until = until
	}
	return held, err
}

// Release ends the lease. On failure it's only logged, and the lease expires by itself.
func (l *Lease) Release(ctx context.Context, log *slog.Logger) {
	if _, err := l.move(context.WithoutCancel(ctx), 0); err != nil {
		log.Warn("a lease was not released", "table", l.table, "id", l.id, "error", err)
	}
}
