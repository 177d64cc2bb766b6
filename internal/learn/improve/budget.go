package improve

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
)

// prices are those of the organisation. Without the service of costs, e.g. in tests, the embedded
// list is used.
func (s *Service) prices(ctx context.Context, orgID string) (pricing.Table, error) {
	if s.Runs.Prices == nil {
		return pricing.Embedded(), nil
	}
	return s.Runs.Prices.Table(ctx, orgID)
}

// allCases are the ids of all cases of the run.
func (r Run) allCases() []string {
	ids := make([]string, len(r.cases))
	for i, c := range r.cases {
		ids[i] = c.ID
	}
	return ids
}

// callsOf is how many calls it takes to try cases so often.
func (r Run) callsOf(ids []string, trials int) (n int64) {
	of := make(map[string]int, len(r.cases))
	for _, c := range r.cases {
		of[c.ID] = c.Calls
	}
	for _, id := range ids {
		n += int64(of[id] * trials)
	}
	return n
}

// caseCount is also known where only the columns of the run were read.
func (r Run) caseCount() int { return r.Train + r.HeldOut }

// roundTrials is how many trials a round has at most: those of the minibatch, with
// the candidate and with its parent, and those of the selection. It is an upper bound, which is
// what limits need.
func (r Run) roundTrials() int {
	return (2*min(search.MinibatchSize, r.Train) + r.Terms.Selection) * r.Terms.Trials
}

// finalTrials is how many trials the proof has, with those of the other cases.
func (r Run) finalTrials() int {
	return 2 * (r.Terms.ProofCases*search.ProofTrials + (r.caseCount()-r.Terms.ProofCases)*r.Terms.Trials)
}

// wholeTrials is how many trials the run has at most. A merge has those of a
// selection.
func (r Run) wholeTrials() int {
	return r.caseCount()*r.Terms.Trials + r.MaxIterations*r.roundTrials() + r.Terms.Selection*r.Terms.Trials + r.finalTrials()
}

// callsPerTrial is the mean over all cases, rounded up: which cases are in which
// part is not known from the beginning.
func (r Run) callsPerTrial() float64 {
	return float64(r.callsOf(r.allCases(), 1)) / float64(max(1, len(r.cases)))
}

// roundCalls rounds up by adding almost one.
func (r Run) roundCalls() int64 {
	return int64(float64(r.roundTrials())*r.callsPerTrial()+0.999) + r.writerCalls()
}

func (r Run) finalCalls() int64 { return int64(float64(r.finalTrials())*r.callsPerTrial() + 0.999) }

// writerCalls is how many calls the writer makes: an answer that cannot be used is
// asked for once more.
func (r Run) writerCalls() int64 {
	if r.callsPerTrial() == 0 {
		return 0
	}
	return 2
}

// A stop is a limit that ends a run early, and why in words; zero if none does.
type stop struct {
	by  limit
	why string
}

// over says which limit of the run is reached. They are checked each time the run is looked at, so
// it may exceed them a little; the limit of money is also passed on to its eval runs.
func (r Run) over() stop {
	switch t := r.Terms; {
	case t.MaxMicros != nil && r.Cost.Micros >= *t.MaxMicros:
		return stop{byCost, fmt.Sprintf("the run has cost %.2f USD, as much as it may", pricing.Dollars(r.Cost.Micros))}
	case t.MaxCalls != nil && r.Cost.Requests >= *t.MaxCalls:
		return stop{byCalls, fmt.Sprintf("the run has made %d calls, as many as it may", r.Cost.Requests)}
	case t.MaxMinutes != nil && runs.Elapsed(r.StartedAt) >= time.Duration(*t.MaxMinutes)*time.Minute:
		return stop{byMinutes, fmt.Sprintf("the run has taken %d minutes, as long as it may", *t.MaxMinutes)}
	}
	return stop{}
}

// short says which limit would be exceeded by so many more trials and calls. Money and
// time are extrapolated from the trials so far. Calls are known in advance. Money and time are
// assumed to grow in proportion to the trials.
func (r Run) short(trials int, calls int64) stop {
	if reached := r.over(); reached.by != "" {
		return reached
	}
	share := float64(trials) / float64(max(1, r.Done))
	switch t := r.Terms; {
	case t.MaxMicros != nil && float64(r.Cost.Micros)*(1+share) > float64(*t.MaxMicros):
		return stop{byCost, fmt.Sprintf("what is left of %.2f USD is not enough", pricing.Dollars(*t.MaxMicros))}
	case t.MaxCalls != nil && r.Cost.Requests+calls > *t.MaxCalls:
		return stop{byCalls, fmt.Sprintf("what is left of %d calls is not enough", *t.MaxCalls)}
	case t.MaxMinutes != nil && runs.Elapsed(r.StartedAt).Minutes()*(1+share) > float64(*t.MaxMinutes):
		return stop{byMinutes, fmt.Sprintf("what is left of %d minutes is not enough", *t.MaxMinutes)}
	}
	return stop{}
}

// microsLeft is what each of so many runs that are started at once may cost; nil
// for no limit. It is at least 1, since 0 would mean no limit.
func (r Run) microsLeft(share int) *int64 {
	if r.Terms.MaxMicros == nil {
		return nil
	}
	left := max(1, (*r.Terms.MaxMicros-r.Cost.Micros)/int64(share))
	return &left
}
