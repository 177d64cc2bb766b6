// Package delivery is the outbox of webhooks, chat messages and mail: it stores messages with the change that causes them,
// and attempts to send each until it arrives, with backoff between the attempts. It owns
// no tables: the rows are those of the capability that sends (Table).
package delivery

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Status is the progress of a delivery.
type Status string

// The statuses of a delivery.
const (
	Pending   Status = "pending"
	Retrying  Status = "retrying"
	Delivered Status = "delivered"
	Failed    Status = "failed"
)

// MaxRuns is how often the job of a delivery is started at most. It is far above
// the number of attempts, which the delivery counts itself: runs that a crash cuts
// short must not use them up.
const MaxRuns = 100

// Progress is how far a delivery is.
type Progress struct {
	Status         Status
	Attempts       int
	ResponseStatus *int
	Detail         *string // safe to show: without the address
	AttemptedAt    *time.Time
	NextAttemptAt  *time.Time
}

// Open reports whether the delivery will be attempted again.
func (p Progress) Open() bool { return p.Status == Pending || p.Status == Retrying }

// Early is how long it is until the next attempt: a crash restarts a job early.
func (p Progress) Early() time.Duration {
	if p.NextAttemptAt == nil {
		return 0
	}
	return max(0, time.Until(*p.NextAttemptAt))
}

// After returns the progress after one more attempt. A failure that may pass is
// retried as long as the backoff has a wait.
func (p Progress) After(result notify.Result, waits Backoff) Progress {
	at := store.Now()
	p.Attempts++
	p.AttemptedAt, p.NextAttemptAt = &at, nil
	p.ResponseStatus, p.Detail = nil, nil
	if result.Status != 0 {
		p.ResponseStatus = &result.Status
	}
	if result.Detail != "" {
		p.Detail = &result.Detail
	}
	switch {
	case result.Outcome == notify.Delivered:
		p.Status = Delivered
	case result.Outcome == notify.Retry && p.Attempts <= len(waits):
		next := at.Add(waits.Wait(p.Attempts, result.RetryAfter))
		p.Status, p.NextAttemptAt = Retrying, &next
	default:
		p.Status = Failed
	}
	return p
}

// Abandoned returns the progress of a delivery that is not attempted any more.
func (p Progress) Abandoned(reason string) Progress {
	p.Status, p.Detail, p.NextAttemptAt = Failed, &reason, nil
	return p
}

// Again is what the job returns after the progress is written: an error that starts
// it again when the next attempt is due, or nil.
func (p Progress) Again() error {
	if p.Status != Retrying {
		return nil
	}
	cause := "not delivered"
	if p.Detail != nil {
		cause = *p.Detail
	}
	return jobs.RetryAfter(time.Until(*p.NextAttemptAt), errors.New(cause))
}

// Backoff has the waits before the second and later attempts.
type Backoff []time.Duration

// DefaultBackoff takes about 18 hours in all.
func DefaultBackoff() Backoff {
	return Backoff{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour}
}

// Wait is the backoff after an attempt with 10 % jitter, or the target's
// Retry-After if that is longer.
func (b Backoff) Wait(attempt int, retryAfter time.Duration) time.Duration {
	planned := b[attempt-1]
	jitter := rand.N(planned/5+1) - planned/10 // jitter is not a secret
	return max(planned+jitter, retryAfter)
}
