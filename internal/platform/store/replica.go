package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fair"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
)

// A Replica is a hot standby of a PostgreSQL database, which FromReplica reads.
type Replica struct {
	// URL is that of one server: what one of several has replayed says nothing about
	// the others.
	URL string
	// MaxLag is how long a read waits for the replica, and so how far it may be behind.
	MaxLag  time.Duration
	Metrics *metrics.Replica
	Log     *slog.Logger
}

// A replica has two connections of its own beside those of reads, so that it can be
// watched while all others are busy.
type replica struct {
	Replica
	reads   *postgresEngine
	standby *postgresEngine
	primary *postgresEngine
	current fair.GroupCommit[struct{}, struct{}]

	usable atomic.Bool
	mu     sync.Mutex
	reason string    // why it is not usable; "" if it is
	seen   time.Time // when it was last up to date
}

var errUnusable = errors.New("the replica is not usable")

const (
	// watchInterval is how often a replica is checked that is not asked for anything.
	watchInterval = time.Second
	// replicaTimeout bounds a statement on the replica, e.g. on one that hangs. The
	// primary is asked then.
	replicaTimeout = 10 * time.Second
)

// openReplica does not connect: the service works without the replica.
func openReplica(ctx context.Context, o Options) (_ *replica, err error) {
	r := &replica{Replica: *o.Replica, seen: time.Now()}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.reads, err = newPostgres(ctx, Options{URL: r.URL, MaxConns: o.MaxConns, Watch: o.Watch}); err != nil {
		return nil, err
	}
	if r.standby, err = newPostgres(ctx, Options{URL: r.URL, MaxConns: 1}); err != nil {
		return nil, err
	}
	if r.primary, err = newPostgres(ctx, Options{URL: o.URL, MaxConns: 1}); err != nil {
		return nil, err
	}
	r.current.MaxSize = math.MaxInt
	r.current.Commit = func(_ struct{}, calls []*fair.GroupCall[struct{}]) {
		err := errUnusable // since the calls began to wait
		if r.usable.Load() {
			err = r.catchUp(context.WithoutCancel(calls[0].Ctx))
		}
		for _, c := range calls {
			c.Answer(err)
		}
	}
	return r, nil
}

func (r *replica) close() {
	for _, e := range []*postgresEngine{r.reads, r.standby, r.primary} {
		if e != nil {
			_ = e.close()
		}
	}
}

// WatchReplica checks the replica until the context ends. Without it, the replica is
// not used. It returns at once if there is none.
func (db *DB) WatchReplica(ctx context.Context) {
	if db.replica == nil {
		return
	}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		_ = db.CheckReplica(ctx) // which logs it
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// CheckReplica finds out whether the replica is usable, and fails if it is not.
func (db *DB) CheckReplica(ctx context.Context) (err error) {
	r := db.replica
	if !r.usable.Load() {
		bounded, cancel := context.WithTimeout(ctx, replicaTimeout)
		err = r.identify(bounded)
		cancel()
	}
	if err == nil {
		err = r.catchUp(ctx)
	}
	r.setUsable(ctx, err)
	return err
}

// identify fails if the server is a replica of another database.
func (r *replica) identify(ctx context.Context) error {
	const sql = `
		SELECT system_identifier::TEXT || ' ' || (SELECT oid FROM pg_database WHERE datname = current_database())::TEXT
		FROM pg_control_system()`
	var ids [2]string
	for i, e := range []*postgresEngine{r.primary, r.standby} {
		rows, err := e.query(ctx, sql, nil)
		if ids[i], err = One(rows, err, "Identity", Value[string]); err != nil {
			return err
		}
	}
	if ids[0] != ids[1] {
		return errors.New("it is not a replica of database-url")
	}
	return nil
}

// catchUp waits until the replica has replayed all that the primary had committed when
// it was called.
func (r *replica) catchUp(ctx context.Context) error {
	started := time.Now()
	bounded, cancel := context.WithTimeout(ctx, r.MaxLag)
	defer cancel()
	err := r.replay(bounded)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it is more than %s behind, or does not answer", r.MaxLag)
	}
	r.mu.Lock()
	if err == nil {
		r.seen = started
	}
	r.Metrics.Lag(time.Since(r.seen))
	r.mu.Unlock()
	if err != nil {
		r.setUsable(ctx, err)
	}
	return err
}

func (r *replica) replay(ctx context.Context) error {
	// An acknowledged commit is flushed, unless synchronous_commit is off.
	rows, err := r.primary.query(ctx, `
		SELECT (CASE current_setting('synchronous_commit') WHEN 'off' THEN pg_current_wal_insert_lsn()
			ELSE pg_current_wal_flush_lsn() END)::TEXT`, nil)
	lsn, err := One(rows, err, "Position", Value[string])
	if err != nil {
		return err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 16*time.Millisecond) {
		rows, err := r.standby.query(ctx, `
			SELECT CASE WHEN pg_is_in_recovery() THEN COALESCE(pg_last_wal_replay_lsn() >= $1::PG_LSN, FALSE) END`, []any{lsn})
		replayed, err := One(rows, err, "Position", Value[*bool])
		switch {
		case err != nil:
			return err
		case replayed == nil:
			return errors.New("it is not a replica, or is none any more")
		case *replayed:
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setUsable logs when the replica becomes usable, or no longer is.
func (r *replica) setUsable(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the process ends
	}
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.usable.Swap(err == nil)
	r.Metrics.Usable(err == nil)
	switch {
	case err == nil && !was:
		r.Log.InfoContext(ctx, "pages and lists are read from the replica of database-read-url")
	case err != nil && (was || r.reason != reason):
		r.Log.WarnContext(ctx, "the replica of database-read-url is not used", "reason", reason)
	}
	r.reason = reason
}

// HasReplica reports whether the database has a replica. A nil one has none.
func (db *DB) HasReplica() bool { return db != nil && db.replica != nil }

// FromReplica calls fn with a context in which Query reads from the replica, if the
// database has one that is up to date: it has all that was committed before. If fn
// fails, it is called once more with a context that reads from the primary, so that no
// error comes of the replica. fn must not write before it reads all that the write
// depends on; after a write, Query reads from the primary.
func (db *DB) FromReplica(ctx context.Context, fn func(context.Context) error) error {
	if !db.HasReplica() {
		return fn(ctx)
	}
	r := &reading{}
	err := fn(context.WithValue(ctx, readingKey{}, r))
	if err == nil || ctx.Err() != nil || !r.onlyReplica() {
		return err
	}
	db.replica.Metrics.Read("retried")
	return fn(ctx)
}

// reading is one call of FromReplica. It chooses at its first statement.
type reading struct {
	mu      sync.Mutex
	chosen  bool
	replica *replica // nil for the primary
	wrote   bool
}

type readingKey struct{}

func (r *reading) onlyReplica() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replica != nil && !r.wrote
}

// replicaOf returns the replica that a statement outside a transaction reads from; nil
// for the primary.
func (db *DB) replicaOf(ctx context.Context) *replica {
	if db.replica == nil {
		return nil
	}
	r, ok := ctx.Value(readingKey{}).(*reading)
	if !ok {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrote {
		return nil
	}
	if !r.chosen {
		r.chosen = true
		if db.replica.usable.Load() && db.replica.current.Do(ctx, struct{}{}, struct{}{}) == nil {
			r.replica = db.replica
			db.replica.Metrics.Read("replica")
		} else {
			db.replica.Metrics.Read("primary")
		}
	}
	return r.replica
}

// writes makes the rest of a call of FromReplica read from the primary.
func (db *DB) writes(ctx context.Context) {
	if db.replica == nil {
		return
	}
	if r, ok := ctx.Value(readingKey{}).(*reading); ok {
		r.mu.Lock()
		r.wrote = true
		r.mu.Unlock()
	}
}

func (r *replica) query(ctx context.Context, sql string, args []any) (Rows, error) {
	bounded, cancel := context.WithTimeout(ctx, replicaTimeout)
	rows, err := r.reads.query(bounded, sql, args)
	if err != nil {
		cancel()
		r.failed(ctx, err)
		return nil, err
	}
	return &replicaRows{Rows: rows, ctx: ctx, cancel: cancel, replica: r}, nil
}

// failed keeps others from a replica that is gone or hangs, until the next check.
func (r *replica) failed(ctx context.Context, err error) {
	if ctx.Err() == nil && (fault.Is(err, fault.Unavailable) || errors.Is(err, context.DeadlineExceeded)) {
		r.setUsable(ctx, err)
	}
}

type replicaRows struct {
	Rows
	ctx     context.Context
	cancel  func()
	replica *replica
}

// Err implements Rows.
func (r *replicaRows) Err() error {
	err := r.Rows.Err()
	r.replica.failed(r.ctx, err)
	return err
}

// Close implements Rows.
func (r *replicaRows) Close() {
	r.Rows.Close()
	r.cancel()
}
