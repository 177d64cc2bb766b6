// Package improve looks for a better description of a skill: it lets a model
// rewrite the description, scores every rewrite on a suite's trigger queries,
// and proposes the one that wins on queries the writer has not seen. It owns
// the tables improve_runs and improve_iterations.
package improve

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/stats"
)

// A Run is an improve run. It scores the current description, lets new ones be
// written from one part of the suite's trigger queries (the training set), and
// chooses by the other part (the holdout), which no writer has seen. It has its
// own copy of the queries: later changes of the suite do not affect it.
type Run struct {
	ID      string
	OrgID   string
	SuiteID string
	Status  runs.Status
	Subject subject.Pinned
	// Description is the skill's when the run was started.
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

	// Iterations are in their order; number 0 is the current description.
	Iterations []Iteration

	queries []Query // nil where only the columns of the run were read
}

// The statuses that only improve runs have. They use those of package runs, too,
// except Failed.
const (
	NoWinner        runs.Status = "no_winner"        // nothing is better than the current description
	FailedTransient runs.Status = "failed_transient" // the judge was unavailable for too long; another run may succeed
	FailedTerminal  runs.Status = "failed_terminal"  // another run would fail, too
)

// An Iteration is a description and its scores.
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
	rate := float64(s.Passed) / float64(s.Cases)
	return &rate
}

// Interval is the Wilson interval of 95 %; nil if none has a verdict.
func (s Score) Interval() *[2]float64 {
	rate := s.Rate()
	if rate == nil {
		return nil
	}
	low, high := stats.Wilson(*rate, s.Cases)
	return &[2]float64{low, high}
}

func (s *Score) add(v runs.Verdict) {
	if v.Decided() {
		s.Cases++
	}
	if v == runs.Pass {
		s.Passed++
	}
}

// A result is the verdict of a query with a description.
type result struct {
	Verdict runs.Verdict `json:"verdict"`
	Chosen  string       `json:"chosen,omitempty"` // the skill that it triggered
}

// trialsPerQuery is how often each query is tried with each description. It is odd,
// so that there is a majority. Each trial has another order of the catalogue,
// against position bias.
const trialsPerQuery = 3

// trialsPerIteration is how many trials an iteration has.
func (r Run) trialsPerIteration() int { return (r.Train + r.HeldOut) * trialsPerQuery }

// bestInTraining is the iteration with the highest score on the training
// queries, the earliest of equal ones. It is what the writer starts from.
func (r Run) bestInTraining() Iteration {
	best := r.Iterations[0]
	for _, it := range r.Iterations[1:] {
		// A larger share, compared by cross-multiplication: either may have no
		// verdicts, and integers do not round.
		if it.Description != nil && it.Train.Passed*best.Train.Cases > best.Train.Passed*it.Train.Cases {
			best = it
		}
	}
	return best
}

// passesToBeat is what a winner's held-out passes must exceed. Queries without a
// verdict for the current description count as passes of it.
func (r Run) passesToBeat() int {
	current := r.Iterations[0].HeldOut
	return current.Passed + r.HeldOut - current.Cases
}

// winner is the iteration with the most held-out passes, the earliest of equal
// ones; nil if none is better than the current description.
func (r Run) winner() (winner *Iteration) {
	most := r.passesToBeat()
	for i, it := range r.Iterations[1:] {
		if it.Description != nil && it.Problem == nil && it.HeldOut.Passed > most {
			winner, most = &r.Iterations[i+1], it.HeldOut.Passed
		}
	}
	return winner
}

// nextStatus is the status after the last iteration: Running as long as another
// one could find something better.
func (r Run) nextStatus() runs.Status {
	winner, last := r.winner(), r.Iterations[len(r.Iterations)-1]
	most := r.passesToBeat()
	if winner != nil {
		most = winner.HeldOut.Passed
	}
	// The built-in writer is deterministic: it would write nothing again.
	exhausted := last.Description == nil && r.Judge.API == judge.Builtin
	switch {
	case r.Iterations[0].HeldOut.Cases == 0:
		return FailedTerminal
	case most < r.HeldOut && last.N < r.MaxIterations && !exhausted:
		return runs.Running
	case winner != nil:
		return runs.Succeeded
	}
	return NoWinner
}
