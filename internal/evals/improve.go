package evals

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/stats"
)

// An ImproveRun looks for a description by which a skill is found better: it
// scores the one that there is, lets new ones be written from a part of the
// suite's trigger queries, and chooses by the other part, which no writer has
// seen. It keeps the queries as they were when it was made.
type ImproveRun struct {
	ID      string
	OrgID   string
	SuiteID string
	Status  Status
	Subject Tested
	// Description is the skill's when the run was made.
	Description   string
	Distractors   []judge.Skill
	MaxIterations int
	Holdout       float64 // share of the queries that are held out
	Seed          int64
	Judge         judge.Description
	// Train, HeldOut and LeftOut count the suite's cases.
	Train, HeldOut, LeftOut int
	Done                    int // trials
	Total                   int
	Winner                  *int // number of an iteration
	ProposalID              *string
	Error                   *string // why the run failed; safe to show
	CreatedBy               string
	CreatedAt               time.Time

	StartedAt, FinishedAt *time.Time

	// Iterations are in their order; the first, of number 0, is of the
	// description that the skill has.
	Iterations []Iteration

	queries []Query // nil where only the run's head was read
}

// The statuses that only improve runs have, beside those of runs but Failed.
const (
	NoWinner        Status = "no_winner"        // nothing is better than what there is
	FailedTransient Status = "failed_transient" // the judge was not there for too long; another run may succeed
	FailedTerminal  Status = "failed_terminal"  // another run would fail, too
)

// An Iteration is a description and how it did.
type Iteration struct {
	N           int
	Description *string // nil: nothing usable was written
	Reason      string  // the writer's
	// Problem says why the description cannot win, whatever its scores; nil if
	// it can.
	Problem        *string
	Train, HeldOut Score
	Errors         int // queries without a verdict

	results []result // of each query of the run; nil where only scores were read
}

// A Score counts queries that have a verdict.
type Score struct {
	Passed, Cases int
}

// Rate is the share that passed; nil if none has a verdict.
func (s Score) Rate() *float64 {
	if s.Cases == 0 {
		return nil
	}
	rate := share(s.Passed, s.Cases)
	return &rate
}

// Interval is Wilson's of 95 %; nil if none has a verdict.
func (s Score) Interval() *[2]float64 {
	rate := s.Rate()
	if rate == nil {
		return nil
	}
	low, high := stats.Wilson(*rate, s.Cases)
	return &[2]float64{low, high}
}

// above reports whether a larger share passed.
func (s Score) above(other Score) bool { return s.Passed*other.Cases > other.Passed*s.Cases }

func (s *Score) add(v Verdict) {
	if v.decided() {
		s.Cases++
	}
	if v == Pass {
		s.Passed++
	}
}

// A result is what a query came to with a description.
type result struct {
	Verdict Verdict `json:"verdict"`
	Chosen  string  `json:"chosen,omitempty"` // the skill that it triggered
}

// improveTrials is how often each query is tried with each description.
const improveTrials = 3

// trials is how many an iteration has.
func (r ImproveRun) trials() int { return (r.Train + r.HeldOut) * improveTrials }

// best is the iteration with the highest score among the queries that the
// writer may see; of equal ones the earliest.
func (r ImproveRun) best() Iteration {
	best := r.Iterations[0]
	for _, it := range r.Iterations[1:] {
		if it.Description != nil && it.Train.above(best.Train) {
			best = it
		}
	}
	return best
}

// toBeat is what a winner's held-out passes must exceed. Queries of which
// nobody knows how they do with the current description count for it.
func (r ImproveRun) toBeat() int {
	current := r.Iterations[0].HeldOut
	return current.Passed + r.HeldOut - current.Cases
}

// winner is the iteration that does best among the held-out queries, of equal
// ones the earliest, if one does better than the current description.
func (r ImproveRun) winner() (winner *Iteration) {
	most := r.toBeat()
	for i, it := range r.Iterations[1:] {
		if it.Description != nil && it.Problem == nil && it.HeldOut.Passed > most {
			winner, most = &r.Iterations[i+1], it.HeldOut.Passed
		}
	}
	return winner
}

// next is the status after the last iteration: Running as long as another one
// could find something better.
func (r ImproveRun) next() Status {
	winner, last := r.winner(), r.Iterations[len(r.Iterations)-1]
	most := r.toBeat()
	if winner != nil {
		most = winner.HeldOut.Passed
	}
	// The built-in writer has nothing else to say to the same question.
	spent := last.Description == nil && r.Judge.API == judge.Builtin
	switch {
	case r.Iterations[0].HeldOut.Cases == 0:
		return FailedTerminal
	case most < r.HeldOut && last.N < r.MaxIterations && !spent:
		return Running
	case winner != nil:
		return Succeeded
	}
	return NoWinner
}
