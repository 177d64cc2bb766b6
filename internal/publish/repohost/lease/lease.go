// Package lease makes sure that only one worker at a time publishes for a connection, so
// that versions appear in the order of pushes, or writes to the code host about one
// thing. A lease is the column held_until of the thing's own table.
package lease

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
	// Poll is how often a held lease is tried again.
	Poll = 200 * time.Millisecond
	// ttl of a lease on a connection. It's renewed before every attempt. Should one take
	// longer, another worker may publish the same commit, which is idempotent.
	ttl = 30 * time.Second
	// writeTTL is the TTL of the other leases. It can be short: a worker that takes over
	// finds on the code host what the other one has created.
	writeTTL = 10 * time.Second
	// timeout is how long a sync waits for a worker's lease.
	timeout = 15 * time.Second
)

// A Table is a table whose rows are leased.
type Table string

// The tables.
const (
	Connections Table = "repohost_connections"
	Attempts    Table = "repohost_attempts"
	Pulls       Table = "pull_requests"
	Comments    Table = "pull_comments"
)

// ttl is longer for connections: one publication takes longer than one report.
func (t Table) ttl() time.Duration {
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
	table Table
	id    string
	until time.Time
}

// Acquire tries to take the lease. It returns false if another worker's lease is valid,
// or the row is gone.
func Acquire(ctx context.Context, db *store.DB, table Table, id string) (l *Lease, acquired bool, err error) {
	l = &Lease{db, table, id, store.Now().Add(table.ttl())}
	acquired, err = l.insert(ctx)
	return l, acquired, err
}

// Wait acquires the lease on a connection, waiting up to timeout for another worker.
func Wait(ctx context.Context, db *store.DB, connectionID string) (*Lease, error) {
	for end := time.Now().Add(timeout); ; {
		l, acquired, err := Acquire(ctx, db, Connections, connectionID)
		if err != nil || acquired {
			return l, err
		}
		if time.Now().After(end) {
			return l, ErrPublishing()
		}
		select {
		case <-time.After(Poll):
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
}

// ErrPublishing is returned to a sync while a worker holds the lease.
func ErrPublishing() error {
	return fault.New(fault.Unavailable, "The connection is publishing; try again").After(Poll)
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
