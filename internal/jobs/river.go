package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Tables brings up River's tables on PostgreSQL. It is a store.Companion.
func Tables(ctx context.Context, db *store.DB) (err error) {
	defer fault.Wrap(&err, "job tables")
	pool, ok := db.Pool()
	if !ok {
		return nil
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// riverQueue is the queue on PostgreSQL. River keeps, claims and ends the
// jobs; unique keys, schedules and the watch over dead processes are ours. So
// are the runs: River claims the oldest of a queue, whosever it is.
type riverQueue struct {
	q        *Queue
	pool     *pgxpool.Pool
	inserter *river.Client[pgx.Tx] // inserts only, so it needs no handlers
	runs     *table
	time     pgClock
}

func newRiver(q *Queue, pool *pgxpool.Pool) (*riverQueue, error) {
	r := &riverQueue{q: q, pool: pool, runs: newTable(q)}
	r.runs.plain, r.runs.time = nil, r.time.Now
	var err error
	r.inserter, err = river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: quiet(q.log),
		Test:   river.TestConfig{Time: insertClock{&r.time}}, // see work
	})
	return r, err
}

// riverArgs are the arguments of any job as River sees them.
type riverArgs struct {
	kind string
	raw  json.RawMessage
	wait time.Duration // after a failed run: until the next
}

// Kind makes riverArgs a river.JobArgs.
func (a riverArgs) Kind() string { return a.kind }

// MarshalJSON gives River the arguments as they are.
func (a riverArgs) MarshalJSON() ([]byte, error) { return a.raw, nil }

// UnmarshalJSON takes the arguments from River as they are.
func (a *riverArgs) UnmarshalJSON(raw []byte) error {
	a.raw = bytes.Clone(raw)
	return nil
}

// metadata stands beside a job's arguments in River's table.
type metadata struct {
	Key string `json:"whetstone_key,omitempty"`
}

func keyed(key string) (string, error) {
	raw, err := json.Marshal(metadata{Key: key})
	return string(raw), err
}

func (r *riverQueue) insert(ctx context.Context, tx *store.Tx, o order) error {
	pg, ok := tx.Postgres()
	if !ok {
		return errors.New("the transaction is of another database")
	}
	if err := r.look(ctx, tx); err != nil {
		return err
	}
	if o.org != "" {
		return r.runs.insert(ctx, tx, o)
	}
	meta, err := keyed(o.key)
	if err != nil {
		return err
	}
	opts := &river.InsertOpts{MaxAttempts: o.attempts, Metadata: []byte(meta)}
	if wait := o.at.Sub(time.Now().Round(0)); wait > 0 { // River would make one that is due wait, too
		opts.ScheduledAt = r.time.Now().Add(wait)
	}
	_, err = r.inserter.InsertTx(ctx, pg, riverArgs{kind: o.kind, raw: o.args}, opts)
	return err
}

const (
	// fetchCooldown is the pause between claims, so one worker does at most a
	// hundred jobs in a second.
	fetchCooldown = 10 * time.Millisecond
	// windDown is what a job gets after its context has ended before River
	// thinks it hangs.
	windDown = 30 * time.Second
	// keepCompleted is short, as nobody looks at them.
	keepCompleted = 5 * time.Minute
)

func (r *riverQueue) run(ctx context.Context) error {
	plain, _ := r.q.kinds()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.runs.run(ctx) })
	if len(plain) > 0 {
		g.Go(func() error { return r.work(ctx, plain) })
	}
	return g.Wait()
}

// work runs River's jobs.
func (r *riverQueue) work(ctx context.Context, kinds []string) error {
	workers := river.NewWorkers()
	longest := time.Duration(0)
	for _, kind := range kinds {
		h := r.q.handlers[kind]
		river.AddWorkerArgs(workers, riverArgs{kind: kind}, &riverWorker{r: r, h: h})
		longest = max(longest, h.timeout)
	}
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		ID:      r.q.worker,
		Logger:  quiet(r.q.log),
		Workers: workers,
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.q.options.Workers}},
		// While a new version rolls out, the old one leaves new kinds alone.
		FetchOnlyKnownKinds: true,
		FetchCooldown:       min(fetchCooldown, r.q.options.Poll),
		FetchPollInterval:   r.q.options.Poll,
		JobTimeout:          -1, // each kind has its own
		// Dead processes are noticed by their lease. River's own rescue is for a
		// job whose end could not be written down, and must never be early.
		RescueStuckJobsAfter:        longest + 2*windDown,
		SoftStopTimeout:             r.q.options.Drain,
		CompletedJobRetentionPeriod: keepCompleted,
		CancelledJobRetentionPeriod: keepCompleted,
		DiscardedJobRetentionPeriod: keepDiscarded,
		// It stands among what is for tests, but is the only way to give River
		// another clock than the machine's.
		Test: river.TestConfig{Time: &r.time},
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	<-client.Stopped()
	return nil
}

// riverWorker runs one kind of job.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	r *riverQueue
	h *handler
}

// Timeout is later than the job's own, which the handler's context has.
func (w *riverWorker) Timeout(*river.Job[riverArgs]) time.Duration { return w.h.timeout + windDown }

// NextRetry is what Work decided. After a rescue nothing was decided.
func (w *riverWorker) NextRetry(j *river.Job[riverArgs]) time.Time {
	return w.r.time.Now().Add(j.Args.wait)
}

// Work runs a job and tells River what becomes of it.
func (w *riverWorker) Work(ctx context.Context, rj *river.Job[riverArgs]) error {
	var meta metadata
	if err := json.Unmarshal(rj.Metadata, &meta); err != nil {
		return river.JobCancel(err)
	}
	j := job{
		id: rj.ID, kind: rj.Kind, args: rj.Args.raw, key: meta.Key, attempt: rj.Attempt, attempts: rj.MaxAttempts,
	}
	if err := w.r.releaseFirst(ctx, j); err != nil {
		w.r.q.log.WarnContext(ctx, "a job could not start", "kind", j.kind, "job", j.id, "err", err)
		rj.Args.wait = w.h.backoff(j.attempt)
		return err
	}
	res := w.r.q.work(ctx, j)
	if res.outcome.again() && !w.r.holdAgain(ctx, j) {
		return nil // another job of this key waits already and is as good
	}
	rj.Args.wait = res.wait
	switch res.outcome {
	case succeeded:
		return nil
	case snoozed:
		return river.JobSnooze(res.wait)
	case cancelled:
		return river.JobCancel(errors.New(res.err))
	case interrupted:
		return context.Canceled // River knows why, and does not count the attempt
	case retrying, discarded:
	}
	return errors.New(res.err)
}

// quiet is a logger for a library whose success chatter nobody needs.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(warnings{log.Handler()}) }

type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
