package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// handler is what the queue knows about a kind of job.
type handler struct {
	call    func(ctx context.Context, args json.RawMessage) error
	timeout time.Duration
	backoff func(attempt int) time.Duration
	// org returns the organisation of a run; nil for all other kinds.
	org       func(args json.RawMessage) (string, error)
	needsRoom bool
}

// A HandleOption changes how all jobs of a kind are run.
type HandleOption func(*handler)

// Timeout limits one attempt, by its context; default 5 minutes.
func Timeout(d time.Duration) HandleOption { return func(h *handler) { h.timeout = d } }

// Backoff sets how long to wait for the next attempt after the attempt of that
// number, counted from 1, has failed; default Exponential.
func Backoff(wait func(attempt int) time.Duration) HandleOption {
	return func(h *handler) { h.backoff = wait }
}

// NeedsRoom marks a kind that writes much: its jobs wait while the disk has no
// free space. See Options.Room.
func NeedsRoom() HandleOption { return func(h *handler) { h.needsRoom = true } }

const defaultTimeout = 5 * time.Minute

// Handle registers the function that runs a kind of job. It must be called
// before Run, once for each kind.
//
// The function may be called twice for one job, so it must be idempotent. It
// must return soon after its context ends, since Run waits for it. When it
// returns an error or panics, the job is retried with backoff until its
// attempts are used up; Snooze, Cancel and RetryAfter return errors that change
// that. A job without attempts left is discarded: kept for 14 days and counted.
func Handle[T Args](q *Queue, fn func(ctx context.Context, args T) error, opts ...HandleOption) {
	var zero T
	kind := zero.Kind()
	if _, taken := q.handlers[kind]; taken {
		panic("jobs: two handlers for " + kind)
	}
	h := &handler{timeout: defaultTimeout, backoff: Exponential}
	decode := func(raw json.RawMessage) (args T, err error) {
		if err := json.Unmarshal(raw, &args); err != nil {
			return args, fmt.Errorf("arguments: %w", err)
		}
		return args, nil
	}
	h.call = func(ctx context.Context, raw json.RawMessage) error {
		args, err := decode(raw)
		if err != nil {
			return err
		}
		return fn(ctx, args)
	}
	if _, ok := any(zero).(RunArgs); ok {
		h.org = func(raw json.RawMessage) (string, error) {
			args, err := decode(raw)
			if err != nil {
				return "", err
			}
			return any(args).(RunArgs).Org(), nil
		}
	}
	for _, set := range opts {
		set(h)
	}
	q.handlers[kind] = h
	// Export both counters before the first run: if a counter appears with its first
	// failure, Prometheus sees no increase.
	for _, o := range []outcome{succeeded, discarded} {
		q.metrics.runs.WithLabelValues(kind, string(o))
	}
}

// Exponential is the default backoff: 1 s after the first attempt, three times
// as long after each following one, at most an hour, with a jitter of 20 %.
func Exponential(attempt int) time.Duration {
	wait := time.Second
	for range attempt - 1 {
		wait = min(3*wait, time.Hour)
	}
	return time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
}

// Snooze makes a handler's job run again later without using up an attempt.
func Snooze(d time.Duration) error { return &snoozeError{d} }

// Cancel ends a handler's job without further attempts.
func Cancel(cause error) error { return &cancelError{cause} }

// RetryAfter fails an attempt and sets the wait until the next one.
func RetryAfter(d time.Duration, cause error) error { return &retryError{d, cause} }

type snoozeError struct{ wait time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.wait) }

type cancelError struct{ cause error }

func (e *cancelError) Error() string { return fmt.Sprint(e.cause) }
func (e *cancelError) Unwrap() error { return e.cause }

type retryError struct {
	wait  time.Duration
	cause error
}

func (e *retryError) Error() string { return fmt.Sprint(e.cause) }
func (e *retryError) Unwrap() error { return e.cause }

type attemptKey struct{}

// Attempt returns, inside a handler, the number of this attempt, counted from
// 1, and of the last one.
func Attempt(ctx context.Context) (number, last int) {
	j, _ := ctx.Value(attemptKey{}).(job)
	return j.attempt, j.maxAttempts
}

// job is a claimed job.
type job struct {
	id          int64
	kind        string
	args        json.RawMessage
	key         string // its unique key; "" if it has none
	attempt     int    // the number of this attempt
	maxAttempts int
	trace       string // of what enqueued it: see trace.Parent
}

// outcome is how an attempt ended.
type outcome string

const (
	succeeded   outcome = "succeeded"
	retrying    outcome = "retrying"
	discarded   outcome = "discarded"
	cancelled   outcome = "cancelled"
	snoozed     outcome = "snoozed"
	interrupted outcome = "interrupted" // by the end of Options.Drain
)

// runsAgain reports whether the job waits for another attempt.
func (o outcome) runsAgain() bool { return o == retrying || o == snoozed || o == interrupted }

type result struct {
	outcome outcome
	wait    time.Duration // until the next attempt, if there is one
	err     string        // what failed, fit to be stored
}

// attempt runs a claimed job once. The context ends when the queue cannot wait
// for the job any longer.
func (q *Queue) attempt(ctx context.Context, j job) result {
	h := q.handlers[j.kind]
	if h.needsRoom && q.options.Room != nil && !q.options.Room() {
		q.log.WarnContext(ctx, "job waits for room on the disk", "kind", j.kind, "job", j.id)
		return result{outcome: snoozed, wait: q.options.RoomWait, err: "there is no room on the disk"}
	}
	started := time.Now()
	ctx, span := q.options.Tracer.Continue(ctx, j.trace, "job "+j.kind, trace.Internal)
	r := h.result(ctx, j, h.run(ctx, j))
	span.Set("whetstone.job.kind", j.kind)
	span.Set("whetstone.job.attempt", j.attempt)
	span.Set("whetstone.job.outcome", string(r.outcome))
	if r.outcome == retrying || r.outcome == discarded {
		span.Fail()
	}
	span.End()
	took := time.Since(started)
	q.metrics.runs.WithLabelValues(j.kind, string(r.outcome)).Inc()
	metrics.Observe(ctx, q.metrics.duration.WithLabelValues(j.kind), took.Seconds())
	log := q.log.With("kind", j.kind, "job", j.id, "attempt", j.attempt, "took", took)
	switch r.outcome {
	case retrying:
		log.WarnContext(ctx, "job failed and will be retried", "wait", r.wait, "error", r.err)
	case discarded:
		log.ErrorContext(ctx, "job failed for the last time", "error", r.err)
	case cancelled:
		log.WarnContext(ctx, "job cancelled itself", "error", r.err)
	case succeeded, snoozed, interrupted:
		log.DebugContext(ctx, "job ran", "outcome", r.outcome)
	}
	return r
}

// run calls the handler's function; a panic is an error.
func (h *handler) run(ctx context.Context, j job) (err error) {
	ctx, stop := context.WithTimeout(context.WithValue(ctx, attemptKey{}, j), h.timeout)
	defer stop()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return h.call(ctx, j.args)
}

// maxError bounds the error text that is stored with a job.
const maxError = 8 << 10

// result decides what happens to a job after an attempt that returned err.
func (h *handler) result(ctx context.Context, j job, err error) result {
	if err == nil {
		return result{outcome: succeeded}
	}
	r := result{err: text.Truncate(text.Clean(err.Error()), maxError)}
	if _, ok := errors.AsType[*cancelError](err); ok {
		r.outcome = cancelled
		return r
	}
	if e, ok := errors.AsType[*snoozeError](err); ok {
		r.outcome, r.wait = snoozed, max(e.wait, 0)
		return r
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		r.outcome = interrupted
		return r
	}
	if j.attempt >= j.maxAttempts {
		r.outcome = discarded
		return r
	}
	wait := h.backoff(j.attempt)
	if e, ok := errors.AsType[*retryError](err); ok {
		wait = e.wait
	}
	r.outcome, r.wait = retrying, max(wait, 0)
	return r
}

// The table job_keys has a row for every unique key whose job waits. A job
// acquires its key when it is enqueued, releases it when it starts, and
// acquires it again when it fails and must be retried.

const insertKey = `INSERT INTO job_keys (kind, unique_key) VALUES ($1, $2) ON CONFLICT DO NOTHING`

// keyLock is SQL for the number of a key's advisory lock on PostgreSQL.
const keyLock = `hashtextextended($1::TEXT || ' ' || $2::TEXT, 0)`

// acquireKey takes a unique key for a new job. It returns false if a waiting
// job has it.
//
// A job that waits must then not start before this transaction ends: it would
// not see what this transaction changes, and it is the reason why no other job
// is enqueued for that change. On SQLite the claim waits anyway, since there is
// one writer at a time. On PostgreSQL a shared advisory lock makes releaseKey
// wait; transactions that acquire the same key do not wait for each other,
// except for the one that inserts it.
func acquireKey(ctx context.Context, tx *store.Tx, kind, key string) (bool, error) {
	statement := insertKey
	if !tx.Dialect().OneWriter() {
		statement = `
			WITH lock AS (SELECT pg_advisory_xact_lock_shared(` + keyLock + `))
			INSERT INTO job_keys (kind, unique_key) SELECT $1, $2 FROM lock
			ON CONFLICT DO NOTHING`
	}
	n, err := tx.Exec(ctx, statement, kind, key)
	return n == 1, err
}

// releaseKey frees the key of a job that starts, after the transactions that
// rely on the job have ended.
func releaseKey(ctx context.Context, tx *store.Tx, kind, key string) error {
	if !tx.Dialect().OneWriter() {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+keyLock+`)`, kind, key); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `DELETE FROM job_keys WHERE kind = $1 AND unique_key = $2`, kind, key)
	return err
}
