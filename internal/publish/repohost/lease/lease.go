// Package lease lets one worker at a time publish for a connection, so that
// versions appear in the order of the pushes, or write to the code host about one
// thing. It uses the column held_until of the thing's table.
package lease

import (
	"context"
	"log/slog"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	// Poll is how often a lease that another worker has is tried again.
	Poll = 200 * time.Millisecond
	// ttl is how long a worker has a lease. It is renewed before every attempt. If
	// one takes longer, another worker may publish the same commit, which is
	// idempotent.
	ttl = 30 * time.Second
	// writeTTL is that of a lease to write about one thing: a worker that takes over
	// finds on the code host what the other one has made.
	writeTTL = 10 * time.Second
	// timeout is how long a sync waits for the lease of a worker to end.
	timeout = 15 * time.Second
)

// A Table has things that one worker at a time works on.
type Table string

// The tables.
const (
	Connections Table = "repohost_connections"
	Attempts    Table = "repohost_attempts"
	Pulls       Table = "pull_requests"
	Comments    Table = "pull_comments"
)

func (t Table) ttl() time.Duration {
	if t == Connections {
		return ttl
	}
	return writeTTL
}

// A Lease is a worker's right to publish for a connection, or to work on another
// thing. The time at which it expires identifies it: a worker whose lease has
// expired can neither renew nor release the one that another worker has acquired
// since.
type Lease struct {
	db    *store.DB
	table Table
	id    string
	until time.Time
}

// Acquire reports false if another worker's lease has not expired, or if the thing
// is gone.
func Acquire(ctx context.Context, db *store.DB, table Table, id string) (l *Lease, acquired bool, err error) {
	l = &Lease{db, table, id, store.Now().Add(table.ttl())}
	acquired, err = l.insert(ctx)
	return l, acquired, err
}

// Wait acquires the lease on a connection, waiting for a worker that has it.
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

// ErrPublishing is the error of a sync while a worker has the lease.
func ErrPublishing() error {
	return fault.New(fault.Unavailable, "The connection is publishing; try again").After(Poll)
}

// Renew reports false if the lease has expired and another worker has one.
func (l *Lease) Renew(ctx context.Context) (held bool, err error) {
	until := store.Now().Add(l.table.ttl())
	if held, err = l.move(ctx, store.Micros(until)); held {
		l.until = until
	}
	return held, err
}

// Release ends a lease. If that fails, it expires after its time.
func (l *Lease) Release(ctx context.Context, log *slog.Logger) {
	if _, err := l.move(context.WithoutCancel(ctx), 0); err != nil {
		log.Warn("a lease was not released", "table", l.table, "id", l.id, "error", err)
	}
}
