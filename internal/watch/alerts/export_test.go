package alerts

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// SetBackoff replaces the waits between the attempts of a delivery.
func (s *Service) SetBackoff(waits []time.Duration) { s.testBackoff = waits }

// OnTransition calls f in the transaction of every transition.
func (s *Service) OnTransition(f func()) { s.testTransition = f }

// Deliver makes one attempt of a delivery, as its job does.
func (s *Service) Deliver(ctx context.Context, id string) error { return s.outbox().Deliver(ctx, id) }

// Transitions evaluates a rule on a skill from a time to another, every minute or, if
// sparse, in the first minute in which it is due. It returns when the state machine
// notified of what, and how often it was asked.
func Transitions(r Rule, of func(now time.Time) skills.WindowStats, from, to time.Time, sparse bool) (all []string, asked int) {
	state := State{State: ok, Since: from}
	next := from
	for now := from; now.Before(to); now = now.Add(time.Minute) {
		if sparse && now.Before(next) {
			continue
		}
		asked++
		skill, snoozed := figures{WindowStats: of(now)}, r.SnoozedUntil != nil && now.Before(*r.SnoozedUntil)
		var transition Transition
		state, transition, _ = state.next(r.evaluate(skill, now), now, snoozed)
		var d due
		d.add(r, skill, state)
		next = d.at("org", now)
		if transition != none {
			all = append(all, now.UTC().Format("02 15:04 ")+string(transition))
		}
	}
	return all, asked
}

// OrgsDue returns the organisations that a sweep at that time evaluates.
func OrgsDue(ctx context.Context, q store.Querier, at time.Time) ([]string, error) {
	return orgsDue(ctx, q, at, maxDue)
}
