// Package jobs does the work that goes on after the answer. A job commits with
// the change that causes it, runs at least once, also when its process dies in
// the middle, and is tried again when it fails. On PostgreSQL the queue is
// River's, on SQLite a table of our own; jobstest holds both to one behaviour.
// Runs, the long jobs of one organisation, are kept apart from all others: see
// RunArgs. The package owns the tables jobs (on PostgreSQL only runs are in
// it), job_keys, job_workers, job_schedules and job_turns, and on PostgreSQL
// River's tables.
package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Args are a job's arguments: a struct that JSON can carry. It holds ids, not
// copies, and no secrets.
type Args interface {
	// Kind names the job, capability dot verb: "alerts.evaluate". It must not
	// depend on the arguments.
	Kind() string
}

// RunArgs are the arguments of a run: a job that works for one organisation
// and may take minutes, e.g. because it runs foreign programs or waits for a
// model. Runs have workers of their own, so that no other job waits for them,
// and organisations share these: see Options.RunWorkers.
type RunArgs interface {
	Args
	// Org is the id of the organisation.
	Org() string
}

// Options say how a queue works. Only DB and Log are required.
type Options struct {
	DB  *store.DB
	Log *slog.Logger
	// Metrics, if not nil, gets the counts and durations of runs.
	Metrics prometheus.Registerer
	// Workers bounds how many jobs, runs not among them, run at once in this
	// process; default 8.
	Workers int
	// RunWorkers bounds how many runs do; default 4. The next one is that of the
	// organisation with the fewest, and among equals of the one whose last was
	// claimed the longest time ago. An organisation has at most all but one of
	// two or more workers, so that another finds one free however long its runs
	// take.
	RunWorkers int
	// Room, if not nil, reports whether there is room on the disk. Jobs of kinds
	// that need it wait until there is: see NeedsRoom.
	Room func() bool
	// Drain is how long running jobs may go on after Run was told to stop,
	// before their context ends; default 10 s.
	Drain time.Duration
	// Poll is how often the queue looks for jobs that nobody announced: those
	// that were scheduled, failed or came from another process; default 250 ms.
	Poll time.Duration
	// Lease is how long a process may be silent before its jobs are taken from
	// it; default 10 s. It says that it lives three times a lease.
	Lease time.Duration
}

func (o Options) withDefaults() Options {
	o.Workers = cmp.Or(o.Workers, 8)
	o.RunWorkers = cmp.Or(o.RunWorkers, 4)
	o.Drain = cmp.Or(o.Drain, 10*time.Second)
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	return o
}

// A Queue keeps jobs and runs them. Without a call of Run it only takes them
// in, for another process to run. It is safe for concurrent use once all
// handlers and schedules are registered.
type Queue struct {
	db        *store.DB
	log       *slog.Logger
	options   Options
	worker    string // this queue's name among job_workers
	handlers  map[string]*handler
	schedules []schedule
	metrics   *metrics
	engine    engine
}

// engine is what the two databases do differently. What takes a transaction
// does its work in it.
type engine interface {
	insert(ctx context.Context, tx *store.Tx, o order) error
	// hold takes a unique key for a new job, and reports false if a job that
	// waits has it already.
	hold(ctx context.Context, tx *store.Tx, kind, key string) (bool, error)
	// release frees the key of a job that starts.
	release(ctx context.Context, tx *store.Tx, j job) error
	// remove deletes the waiting jobs of a key and returns how many there were.
	remove(ctx context.Context, tx *store.Tx, kind, key string) (int64, error)
	// live reports whether a job of a key waits or runs.
	live(ctx context.Context, tx *store.Tx, kind, key string) (bool, error)
	// adopt makes runs of the waiting jobs of those kinds that are none: a
	// version without runs enqueued them.
	adopt(ctx context.Context, tx *store.Tx, kinds []string) error
	// rescue gives back the jobs of workers that are not in job_workers.
	rescue(ctx context.Context, tx *store.Tx) ([]rescued, error)
	// tidy removes what nothing else would: old discarded jobs, and keys that
	// no job stands behind.
	tidy(ctx context.Context, tx *store.Tx) error
	counts(ctx context.Context) ([]Count, error)
	// countStuck is SQL for the number of jobs of workers that are not in
	// job_workers, or were last seen before $1.
	countStuck() string
	// selectSaved is SQL for the jobs that a backup keeps.
	selectSaved() string
	restore(ctx context.Context, tx *store.Tx, s Saved) error
	// now is SQL for the database's own time in microseconds: replicas' clocks
	// differ.
	now() string
	// clock is that time as this process knows it.
	clock() time.Time
	// tick tells what that time has just been.
	tick(now time.Time)
	// run claims and runs jobs until the context ends, and drains.
	run(ctx context.Context) error
}

// New returns a queue. It does not touch the database.
func New(o Options) (_ *Queue, err error) {
	defer fault.Wrap(&err, "job queue")
	q := &Queue{db: o.DB, log: o.Log, options: o.withDefaults(), worker: workerName(), handlers: map[string]*handler{}}
	if q.metrics, err = newMetrics(o.Metrics); err != nil {
		return nil, err
	}
	if pool, ok := o.DB.Pool(); ok {
		q.engine, err = newRiver(q, pool)
		return q, err
	}
	q.engine = newTable(q)
	return q, nil
}

// order is a job to be inserted.
type order struct {
	kind     string
	org      string // whose run it is; "" for every other job
	args     json.RawMessage
	key      string // "" without Unique
	at       time.Time
	attempts int
	onStart  bool
}

// An Option says how one job is to be run.
type Option func(*order)

// At keeps a job waiting until a time. On PostgreSQL it may start some seconds
// later: River looks every five.
func At(t time.Time) Option { return func(o *order) { o.at = t } }

// Unique makes Enqueue do nothing while a job of the same kind and key waits
// to be started, be it for the first time or again. A job that runs does not
// count: what changed after it began needs another. Jobs of one kind and key
// must therefore be as good as each other, whatever their other arguments.
func Unique(key string) Option { return func(o *order) { o.key = key } }

// Attempts bounds how often a job is started before it is given up; default
// 10. A crash of its process uses an attempt, too.
func Attempts(n int) Option { return func(o *order) { o.attempts = n } }

const defaultAttempts = 10

// Enqueue inserts a job in the transaction that makes it necessary: it runs
// after the transaction has committed, and not at all if it rolls back.
func (q *Queue) Enqueue(ctx context.Context, tx *store.Tx, args Args, opts ...Option) (err error) {
	defer fault.Wrap(&err, "enqueue %s", args.Kind())
	o, err := newOrder(args, opts)
	if err != nil {
		return err
	}
	if o.key != "" {
		if free, err := q.engine.hold(ctx, tx, o.kind, o.key); err != nil || !free {
			return err
		}
	}
	return q.engine.insert(ctx, tx, o)
}

func newOrder(args Args, opts []Option) (order, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return order{}, err
	}
	o := order{kind: args.Kind(), args: raw, attempts: defaultAttempts}
	run, ok := args.(RunArgs)
	if ok {
		o.org = run.Org()
	}
	for _, set := range opts {
		set(&o)
	}
	if o.kind == "" {
		return order{}, errors.New("a job needs a kind")
	}
	if ok && o.org == "" {
		return order{}, errors.New("a run needs an organisation")
	}
	if o.attempts < 1 || o.attempts > math.MaxInt16 {
		return order{}, fmt.Errorf("a job cannot have %d attempts", o.attempts)
	}
	return o, nil
}

// Cancel removes the job of a kind and key that waits, and reports whether
// there was one. A job that runs goes on.
func (q *Queue) Cancel(ctx context.Context, tx *store.Tx, kind, key string) (_ bool, err error) {
	defer fault.Wrap(&err, "cancel %s", kind)
	n, err := q.engine.remove(ctx, tx, kind, key)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = tx.Exec(ctx, deleteKey, kind, key)
	return true, err
}

// The statements on job_keys that both databases share.
const (
	insertKey = `INSERT INTO job_keys (kind, unique_key) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	deleteKey = `DELETE FROM job_keys WHERE kind = $1 AND unique_key = $2`
)

// A Count is how many jobs of one kind there are.
type Count struct {
	Kind      string
	Waiting   int // for their first start
	Running   int
	Retrying  int // waiting after a failure
	Discarded int // given up in the last 14 days
	// Late is for how long the longest-waiting job could have run already.
	Late time.Duration
}

// Counts counts the jobs of every kind that has any, in the order of kinds.
func (q *Queue) Counts(ctx context.Context) (_ []Count, err error) {
	defer fault.Wrap(&err, "count jobs")
	return q.engine.counts(ctx)
}

func scanCount(row store.Row) (c Count, err error) {
	var late int64
	err = row.Scan(&c.Kind, &c.Waiting, &c.Running, &c.Retrying, &c.Discarded, &late)
	c.Late = time.Duration(max(late, 0)) * time.Microsecond
	return c, err
}

// keepDiscarded is how long jobs that were given up can be looked at.
const keepDiscarded = 14 * 24 * time.Hour
