package alerts

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// An organisation is evaluated when its figures change (see Changed), and when time alone
// changes a verdict or is worth a reminder: alert_rules has when that is. So a sweep reads
// what is due, however many organisations are at rest.

const (
	// rest is how long an organisation waits at most for an evaluation. It is for changes
	// that nothing reports, e.g. a skill that was hidden or a version that was rolled back.
	rest = 30 * time.Minute
	// maxDue is how many rules a sweep takes up. The next one continues.
	maxDue = 1000
)

// EvaluateDue evaluates the organisations that are due. One that fails does not keep back
// the others, and is tried again at the next interval.
func (s *Service) EvaluateDue(ctx context.Context) error {
	orgs, err := orgsDue(ctx, s.DB, store.Now(), maxDue)
	if err != nil {
		return err
	}
	var failures []error
	for _, orgID := range orgs {
		err := s.Evaluate(ctx, orgID)
		if err != nil {
			now := store.Now()
			err = errors.Join(err, postpone(ctx, s.DB, orgID, now, now.Add(s.Interval)))
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// due collects when time alone changes the state of a rule and a skill.
type due struct{ times []time.Time }

func (d *due) add(r Rule, skill figures, s State) {
	switch {
	case s.State != firing && r.Type == NoData:
		d.times = append(d.times, silentAt(r, skill.WindowStats))
	case s.State != firing:
	case s.GoodStreak > 0: // resolved by the next evaluation
		d.times = append(d.times, time.Time{})
	case s.AcknowledgedAt == nil:
		var notice time.Time
		if s.LastNoticeAt != nil {
			notice = s.LastNoticeAt.Add(remindEvery)
		}
		if r.SnoozedUntil != nil && notice.Before(*r.SnoozedUntil) {
			notice = *r.SnoozedUntil
		}
		d.times = append(d.times, notice)
	}
}

// at is when the organisation is due: at the first of these times that is to come, at
// midnight, when the windows of all figures move on, or after a rest. A time that has
// passed means the next sweep.
func (d *due) at(orgID string, now time.Time) time.Time {
	first := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if rested := now.Add(rest - spreadOf(orgID)); rested.Before(first) {
		first = rested
	}
	for _, t := range d.times {
		if t.Before(first) {
			first = t
		}
	}
	return first
}

// spreadOf keeps organisations that were evaluated together from being due together again.
func spreadOf(orgID string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(orgID)) // never fails
	return time.Duration(h.Sum32()) % (rest / 2)
}

// silentAt is when a skill without further data breaches a rule on silence.
func silentAt(r Rule, s skills.WindowStats) time.Time {
	last := lastData(r, s)
	if r.Threshold == 0 {
		return last.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	return last.Add(time.Duration(r.Threshold * 24 * float64(time.Hour)))
}
