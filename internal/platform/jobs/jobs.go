// Package jobs is the queue for background work. A job commits with the change
// that causes it, runs at least once, even if its process dies halfway, and is
// retried with backoff when it fails.
//
// All jobs are in one table, on both databases, and workers of two lanes claim them
// (lanes.go). Runs, the long jobs of one organisation, have a lane of their own, in which
// an organisation with fewer running ones goes first (runs.go). All other jobs take turns
// by organisation (turns.go). Package jobstest holds both databases to one behaviour.
//
// The package owns the tables jobs, job_keys, job_workers, job_schedules and
// job_turns, and on PostgreSQL what versions before have left in River's (upgrade.go).
package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// Args are a job's arguments: a struct that JSON can carry. It holds ids, not
// copies, and no secrets.
type Args interface {
	// Kind names the job as capability dot verb, e.g. "alerts.evaluate". It must
	// not depend on the arguments.
	Kind() string
}

// RunArgs are the arguments of a run: a job that works for one organisation
// and may take minutes, e.g. because it runs foreign programs or waits for a
// model. Runs have workers of their own, so no other job waits for them, and
// organisations share these workers fairly: see Options.RunWorkers.
type RunArgs interface {
	Args
	// Org is the id of the organisation.
	Org() string
}

// Options configure a Queue. Only DB and Log are required.
type Options struct {
	DB  *store.DB
	Log *slog.Logger
	// Metrics, if not nil, gets the counts and durations of attempts.
	Metrics prometheus.Registerer
	// Tracer, if not nil, records attempts.
	Tracer *trace.Tracer
	// Workers is how many jobs this process runs at once, runs not included;
	// default 8.
	Workers int
	// RunWorkers is how many runs this process executes at once; default 4. The
	// next run is taken from the organisation with the fewest running ones, and
	// among equals from the one served least recently. Of two or more workers
	// one organisation gets at most all but one, so another always finds a free
	// worker however long the first one's runs take.
	RunWorkers int
	// Room, if not nil, reports whether the disk has free space. Jobs of the
	// kinds registered with NeedsRoom wait until it does.
	Room func() bool
	// RoomWait is how long such a job is snoozed; default 15 s.
	RoomWait time.Duration
	// Drain is how long running jobs may continue after Run is stopped, before
	// their context is cancelled; default 10 s.
	Drain time.Duration
	// Poll is how often the queue looks for jobs it was not notified of: those
	// that became due, are retried or were enqueued by another process;
	// default 250 ms.
	Poll time.Duration
	// Lease is how long a process may go without a heartbeat before its jobs are
	// reclaimed; default 10 s. Heartbeats are written every Lease/3.
	Lease time.Duration
}

// A Queue stores jobs and runs them. A process that never calls Run only
// enqueues, for others to run. A Queue is safe for concurrent use once all
// handlers and schedules are registered.
type Queue struct {
	db        *store.DB
	log       *slog.Logger
	options   Options
	worker    string // this queue's id in job_workers
	handlers  map[string]*handler
	schedules []schedule
	metrics   *queueMetrics
	plain     *lane
	runs      *lane
	// served is the organisation whose plain job was claimed last; claims follow each other.
	served string
}

// New returns a queue. It does not touch the database.
func New(o Options) (_ *Queue, err error) {
	defer fault.Wrap(&err, "job queue")
	o.Workers = cmp.Or(o.Workers, 8)
	o.RunWorkers = cmp.Or(o.RunWorkers, 4)
	o.RoomWait = cmp.Or(o.RoomWait, 15*time.Second)
	o.Drain = cmp.Or(o.Drain, 10*time.Second)
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	q := &Queue{db: o.DB, log: o.Log, options: o, worker: newWorkerID(), handlers: map[string]*handler{}}
	if q.metrics, err = newMetrics(o.Metrics); err != nil {
		return nil, err
	}
	q.plain, q.runs = newLane("plain", q.options.Workers, "org_id IS NULL"),
		newLane("runs", q.options.RunWorkers, "org_id IS NOT NULL")
	q.plain.claim, q.runs.claim = q.claimNext, q.claimRun
	return q, nil
}

// spec describes a job to insert.
type spec struct {
	kind        string
	org         string // whose run it is; "" for every other job
	forOrg      string // see For
	args        json.RawMessage
	key         string // its unique key; "" if it has none
	maxAttempts int
	onStart     bool // of a schedule: see RunOnStart
	trace       string
}

// An Option changes how one job is enqueued.
type Option func(*spec)

// Unique makes Enqueue do nothing while a job of the same kind and unique key
// waits, for its first attempt or for a retry. A running job does not count:
// what changed after it started needs another job. Jobs of one kind and key
// must therefore be interchangeable, whatever their other arguments.
func Unique(key string) Option { return func(s *spec) { s.key = key } }

// Attempts limits how often a job is started before it is discarded; default
// 10. A crash of its process uses up an attempt, too.
func Attempts(n int) Option { return func(s *spec) { s.maxAttempts = n } }

const defaultAttempts = 10

// Enqueue inserts a job in the transaction that makes it necessary: it runs
// after the transaction has committed, and not at all if it rolls back.
func (q *Queue) Enqueue(ctx context.Context, tx *store.Tx, args Args, opts ...Option) (err error) {
	defer fault.Wrap(&err, "enqueue %s", args.Kind())
	s, err := newSpec(args, opts)
	if err != nil {
		return err
	}
	// A job that enqueues the next of its kind, and that the next, would make a trace
	// without end.
	if by, ok := ctx.Value(attemptKey{}).(job); !ok || by.kind != s.kind {
		s.trace = trace.Parent(ctx)
	}
	if s.key != "" {
		if free, err := acquireKey(ctx, tx, s.kind, s.key); err != nil || !free {
			return err
		}
	}
	return q.insert(ctx, tx, s)
}

func newSpec(args Args, opts []Option) (spec, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return spec{}, err
	}
	s := spec{kind: args.Kind(), args: raw, maxAttempts: defaultAttempts}
	run, ok := args.(RunArgs)
	if ok {
		s.org = run.Org()
	}
	for _, set := range opts {
		set(&s)
	}
	if s.kind == "" {
		return spec{}, errors.New("a job needs a kind")
	}
	if ok && s.org == "" {
		return spec{}, errors.New("a run needs an organisation")
	}
	// The version before keeps the number in a SMALLINT.
	if s.maxAttempts < 1 || s.maxAttempts > math.MaxInt16 {
		return spec{}, fmt.Errorf("a job cannot have %d attempts", s.maxAttempts)
	}
	return s, nil
}

// A Count is the number of jobs of one kind by state.
type Count struct {
	Kind      string
	Waiting   int // for their first attempt
	Running   int
	Retrying  int // waiting after a failure
	Discarded int // given up in the last 14 days
	// Late is how long the longest-waiting job has been due.
	Late time.Duration
}

// Kinds are the kinds of jobs that this process knows.
func (q *Queue) Kinds() []string { return slices.Sorted(maps.Keys(q.handlers)) }

// Counts counts the jobs of every kind that has any, sorted by kind.
func (q *Queue) Counts(ctx context.Context) (_ []Count, err error) {
	defer fault.Wrap(&err, "count jobs")
	now := q.db.Dialect().Now()
	rows, err := q.db.Query(ctx, `
		SELECT kind,
			COUNT(*) FILTER (WHERE state = 'waiting' AND attempt = 0),
			COUNT(*) FILTER (WHERE state = 'running'),
			COUNT(*) FILTER (WHERE state = 'waiting' AND attempt > 0),
			COUNT(*) FILTER (WHERE state = 'discarded'),
			`+now+` - COALESCE(MIN(run_at) FILTER (WHERE state = 'waiting'), `+now+`)
		FROM jobs GROUP BY kind`)
	counts, err := store.All(rows, err, func(row store.Row) (c Count, err error) {
		var late int64
		err = row.Scan(&c.Kind, &c.Waiting, &c.Running, &c.Retrying, &c.Discarded, &late)
		c.Late = time.Duration(max(late, 0)) * time.Microsecond
		return c, err
	})
	slices.SortFunc(counts, func(a, b Count) int { return strings.Compare(a.Kind, b.Kind) })
	return counts, err
}

// keepDiscarded is how long discarded jobs are kept for inspection.
const keepDiscarded = 14 * 24 * time.Hour

type queueMetrics struct {
	runs     *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) (*queueMetrics, error) {
	m := &queueMetrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "whetstone_job_runs_total",
			Help: "Runs of jobs by kind and outcome; rescued ones were taken from a dead process.",
		}, []string{"kind", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "whetstone_job_run_seconds",
			Help:    "How long runs of jobs took.",
			Buckets: []float64{.005, .025, .1, .5, 2.5, 10, 60, 300, 1800},
		}, []string{"kind"}),
	}
	if registry == nil {
		return m, nil
	}
	return m, errors.Join(registry.Register(m.runs), registry.Register(m.duration))
}
