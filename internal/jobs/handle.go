package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"
)

// handler is what the queue knows about a kind of job.
type handler struct {
	call    func(ctx context.Context, args json.RawMessage) error
	timeout time.Duration
	backoff func(attempt int) time.Duration
	// org is the organisation of a run; nil if the kind is none of runs.
	org       func(args json.RawMessage) (string, error)
	needsRoom bool
}

// A HandleOption says how all jobs of a kind are run.
type HandleOption func(*handler)

// Timeout bounds one run: then its context ends; default 5 minutes.
func Timeout(d time.Duration) HandleOption { return func(h *handler) { h.timeout = d } }

// Backoff says how long to wait after the attempt of that number, counted from
// 1, has failed; default Exponential.
func Backoff(wait func(attempt int) time.Duration) HandleOption {
	return func(h *handler) { h.backoff = wait }
}

// NeedsRoom makes jobs of a kind that writes much wait while there is no room
// on the disk: see Options.Room.
func NeedsRoom() HandleOption { return func(h *handler) { h.needsRoom = true } }

const (
	defaultTimeout = 5 * time.Minute
	// roomWait is when a job looks again whether there is room.
	roomWait = 15 * time.Second
)

// Handle registers the function that runs a kind of job. It must be called
// before Run, once for each kind.
//
// The function may be called twice for one job, and must heed its context:
// Run waits for it. When it returns an error the job is tried again, unless
// the error is from Snooze, Cancel or RetryAfter or the attempts are used up;
// a panic is an error. A job that is given up is kept for a while and counted.
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
}

// Exponential waits 1 s after the first attempt and three times longer after
// each following one, up to an hour, give or take a fifth.
func Exponential(attempt int) time.Duration {
	wait := time.Second
	for range attempt - 1 {
		wait = min(3*wait, time.Hour)
	}
	return time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
}

// Snooze makes a handler's job run again later without using an attempt.
func Snooze(d time.Duration) error { return &snoozeError{d} }

// Cancel makes a handler's job end for good: another try cannot help.
func Cancel(cause error) error { return &cancelError{cause} }

// RetryAfter is a handler's failure that says itself when to try again.
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

// Attempt returns, inside a handler, the number of this attempt and of the
// last one there can be.
func Attempt(ctx context.Context) (number, last int) {
	j, _ := ctx.Value(attemptKey{}).(job)
	return j.attempt, j.attempts
}

// job is one that has been claimed.
type job struct {
	id       int64
	kind     string
	args     json.RawMessage
	key      string // "" without Unique
	attempt  int    // this one's number
	attempts int
}

// outcome says what becomes of a job after a run.
type outcome string

const (
	succeeded   outcome = "succeeded"
	retrying    outcome = "retrying"
	discarded   outcome = "discarded"
	cancelled   outcome = "cancelled"
	snoozed     outcome = "snoozed"
	interrupted outcome = "interrupted" // by our own shutdown
)

// again reports whether the job waits to be started once more.
func (o outcome) again() bool { return o == retrying || o == snoozed || o == interrupted }

// used is how many attempts are used after this one.
func (o outcome) used(attempt int) int {
	if o == snoozed || o == interrupted {
		return attempt - 1
	}
	return attempt
}

type result struct {
	outcome outcome
	wait    time.Duration // until the next run, if there is one
	err     string        // what went wrong, fit for a database
}

// work runs a claimed job and judges how it went. The context ends when the
// queue cannot wait for the job any longer.
func (q *Queue) work(ctx context.Context, j job) result {
	h := q.handlers[j.kind]
	if h.needsRoom && q.options.Room != nil && !q.options.Room() {
		q.log.WarnContext(ctx, "job waits for room on the disk", "kind", j.kind, "job", j.id)
		return result{outcome: snoozed, wait: roomWait, err: "there is no room on the disk"}
	}
	started := time.Now()
	err := h.run(ctx, j)
	r := h.judge(ctx, j, err)
	took := time.Since(started)
	q.metrics.observe(j.kind, r.outcome, took)
	log := q.log.With("kind", j.kind, "job", j.id, "attempt", j.attempt, "took", took)
	switch r.outcome {
	case retrying:
		log.WarnContext(ctx, "job failed and will be tried again", "wait", r.wait, "err", r.err)
	case discarded:
		log.ErrorContext(ctx, "job failed for the last time", "err", r.err)
	case cancelled:
		log.WarnContext(ctx, "job ended itself", "err", r.err)
	case succeeded, snoozed, interrupted:
		log.DebugContext(ctx, "job ran", "outcome", r.outcome)
	}
	return r
}

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

func (h *handler) judge(ctx context.Context, j job, err error) result {
	if err == nil {
		return result{outcome: succeeded}
	}
	r := result{err: plain(err)}
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
	if j.attempt >= j.attempts {
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

// maxError bounds the error text that is kept with a job.
const maxError = 8 << 10

// plain is an error's text without what PostgreSQL's JSON refuses.
func plain(err error) string {
	text := strings.ReplaceAll(err.Error(), "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}
