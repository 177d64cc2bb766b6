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
	"github.com/riverqueue/river/rivertype"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Tables migrates River's tables on PostgreSQL. It is a store.Companion.
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
	if _, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	return addTurnsIndex(ctx, db)
}

// riverQueue is the queue on PostgreSQL for all jobs but runs. River stores
// jobs, notifies workers, claims, completes, retries, snoozes and cleans up.
type riverQueue struct {
	q        *Queue
	pool     *pgxpool.Pool
	inserter *river.Client[pgx.Tx] // never started, so it needs no handlers
	clock    dbClock
	turns    riverTurns
}

func newRiver(q *Queue, pool *pgxpool.Pool) (*riverQueue, error) {
	inserter, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: warningsOnly(q.log),
		// A job that follows another within this time is found by a poll only.
		FetchCooldown: fetchCooldown,
		Hooks:         []rivertype.Hook{river.HookInsertBeginFunc(dueByDatabaseClock)},
	})
	return &riverQueue{
		q: q, pool: pool, inserter: inserter,
		turns: riverTurns{db: q.db, share: share(q.options.Workers), running: map[int64]string{}},
	}, err
}

// riverArgs are the arguments of any job as River sees them.
type riverArgs struct {
	kind string
	raw  json.RawMessage
	wait time.Duration // set by Work: the backoff after this attempt
}

// Kind implements river.JobArgs.
func (a riverArgs) Kind() string { return a.kind }

// MarshalJSON returns the arguments as they are.
func (a riverArgs) MarshalJSON() ([]byte, error) { return a.raw, nil }

// UnmarshalJSON keeps the arguments as they are.
func (a *riverArgs) UnmarshalJSON(raw []byte) error {
	a.raw = bytes.Clone(raw)
	return nil
}

// metadata is stored beside a job's arguments in River's table.
type metadata struct {
	Key   string `json:"whetstone_key,omitempty"`
	Org   string `json:"whetstone_org,omitempty"` // see For
	Trace string `json:"whetstone_trace,omitempty"`
}

func (r *riverQueue) insert(ctx context.Context, tx *store.Tx, s spec) error {
	pg, ok := tx.Postgres()
	if !ok {
		return errors.New("the transaction is of another database")
	}
	meta, err := json.Marshal(metadata{Key: s.key, Org: s.forOrg, Trace: s.trace})
	if err != nil {
		return err
	}
	_, err = r.inserter.InsertTx(ctx, pg, riverArgs{kind: s.kind, raw: s.args},
		&river.InsertOpts{MaxAttempts: s.maxAttempts, Metadata: meta})
	return err
}

const (
	// fetchCooldown is the minimum pause between claims, so one worker completes
	// at most a hundred jobs a second.
	fetchCooldown = 10 * time.Millisecond
	// windDown is how long a job may take to return after its context has ended.
	windDown = 30 * time.Second
	// keepCompleted is short, since completed jobs are not shown anywhere.
	keepCompleted = 5 * time.Minute
)

// run works River's jobs until the context ends, and drains.
func (r *riverQueue) run(ctx context.Context) error {
	workers := river.NewWorkers()
	longest := time.Duration(0)
	for kind, h := range r.q.handlers {
		river.AddWorkerArgs(workers, riverArgs{kind: kind}, &riverWorker{r: r, h: h})
		longest = max(longest, h.timeout)
	}
	client, err := river.NewClient(fairDriver{riverpgxv5.New(r.pool), &r.turns}, &river.Config{
		ID:      r.q.worker,
		Logger:  warningsOnly(r.q.log),
		Workers: workers,
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.q.options.Workers}},
		// In a rolling deployment the old version must leave new kinds alone.
		FetchOnlyKnownKinds: true,
		FetchCooldown:       min(fetchCooldown, r.q.options.Poll),
		FetchPollInterval:   r.q.options.Poll,
		PollOnly:            r.q.db.Pooled(), // a pooler cannot LISTEN
		JobTimeout:          -1,              // each kind has its own
		// A second net beneath reap, for a job of a live process whose outcome was
		// never stored. It must be longer than any attempt.
		RescueStuckJobsAfter:        longest + 2*windDown,
		SoftStopTimeout:             r.q.options.Drain,
		CompletedJobRetentionPeriod: keepCompleted,
		CancelledJobRetentionPeriod: keepCompleted,
		DiscardedJobRetentionPeriod: keepDiscarded,
		Test:                        river.TestConfig{Time: &r.clock}, // see dbClock
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

// Timeout is later than the handler's own, which attempt sets.
func (w *riverWorker) Timeout(*river.Job[riverArgs]) time.Duration { return w.h.timeout + windDown }

// NextRetry applies the backoff that Work decided on. For a job that River
// rescued that is none.
func (w *riverWorker) NextRetry(j *river.Job[riverArgs]) time.Time {
	return w.r.clock.Now().Add(j.Args.wait)
}

// Work runs a job and returns its outcome as River's errors.
func (w *riverWorker) Work(ctx context.Context, rj *river.Job[riverArgs]) error {
	defer w.r.turns.done(rj.ID)
	var meta metadata
	if err := json.Unmarshal(rj.Metadata, &meta); err != nil {
		return river.JobCancel(err)
	}
	j := job{
		id: rj.ID, kind: rj.Kind, args: rj.Args.raw, key: meta.Key, attempt: rj.Attempt, maxAttempts: rj.MaxAttempts,
		trace: meta.Trace,
	}
	rj.Args.wait = w.h.backoff(j.attempt) // unless an attempt is made
	if w.h.org != nil {
		return w.refile(ctx, rj, j)
	}
	if err := w.r.releaseKey(ctx, j); err != nil {
		w.r.q.log.WarnContext(ctx, "a job could not start", "kind", j.kind, "job", j.id, "error", err)
		return err
	}
	res := w.r.q.attempt(ctx, j)
	if res.outcome.runsAgain() && !w.r.reacquireKey(ctx, j) {
		return nil // another job waits under its key
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
		return context.Canceled // with SoftStopTimeout, River does not count the attempt
	case retrying, discarded:
	}
	return errors.New(res.err)
}

// releaseKey frees the unique key of a job that River has claimed.
func (r *riverQueue) releaseKey(ctx context.Context, j job) error {
	if j.key == "" {
		return nil
	}
	return r.q.db.InTx(ctx, func(tx *store.Tx) error { return releaseKey(ctx, tx, j.kind, j.key) })
}

// reacquireKey takes the unique key of a job that will run again. It returns
// false if the job is not needed any more.
func (r *riverQueue) reacquireKey(ctx context.Context, j job) bool {
	if j.key == "" {
		return true
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	free, err := reacquireKey(ctx, r.q.db, j.kind, j.key)
	if err != nil {
		r.q.log.WarnContext(ctx, "a job waits without its unique key", "kind", j.kind, "job", j.id, "error", err)
		return true
	}
	return free
}

// refile moves a run to our own table. Only versions without runs enqueue them
// here; such a process may still run beside this one.
func (w *riverWorker) refile(ctx context.Context, rj *river.Job[riverArgs], j job) error {
	return w.r.q.db.InTx(ctx, func(tx *store.Tx) error {
		pg, _ := tx.Postgres()
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, pg, rj); err != nil {
			return err
		}
		// It still has its unique key.
		return w.r.q.table.restore(ctx, tx, Saved{
			Kind: j.kind, Args: j.args, Key: j.key, Attempt: j.attempt - 1, MaxAttempts: j.maxAttempts,
			RunAt: rj.ScheduledAt, CreatedAt: rj.CreatedAt, Org: w.h.orgOf(j.args),
		})
	})
}

// warningsOnly drops River's informational messages.
func warningsOnly(log *slog.Logger) *slog.Logger { return slog.New(warnings{log.Handler()}) }

type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
