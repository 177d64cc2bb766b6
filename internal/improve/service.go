package improve

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/suites"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// Service starts, executes and reports improve runs.
type Service struct {
	DB        *store.DB
	Jobs      *jobs.Queue
	Suites    *suites.Service
	Runs      *runs.Service // finds skills and streams events
	Judge     *judge.Judge
	Proposals *proposals.Service
	Log       *slog.Logger
}

// Evidence is what a proposal of an improve run rests on.
type Evidence struct {
	ImproveRunID string            `json:"improve_run_id"`
	SuiteID      string            `json:"suite_id"`
	Iteration    int               `json:"iteration"`
	Judge        judge.Description `json:"judge"`
	Train        BeforeAfter       `json:"train"`
	Holdout      BeforeAfter       `json:"holdout"`
}

// BeforeAfter compares queries that passed.
type BeforeAfter struct {
	Before int `json:"passed_before"`
	After  int `json:"passed_after"`
	Cases  int `json:"cases"`
}

// NewRun describes an improve run to start.
type NewRun struct {
	Subject       subject.Ref // a source or an entry
	SuiteID       string
	MaxIterations int     // 1 to MaxIterations
	Holdout       float64 // MinHoldout to MaxHoldout
}

// The limits and defaults of a run, which the API's schema states, too.
const (
	MaxIterations     = 10
	DefaultIterations = 3
	// The holdout is the share of the queries that only decide.
	MinHoldout     = 0.1
	MaxHoldout     = 0.9
	DefaultHoldout = 0.4
)

// Check validates the fields of a run.
func (n NewRun) Check() error {
	if (n.Subject.SourceID == "") == (n.Subject.EntryID == "") {
		return fault.Invalid("source_id", "give exactly one of source_id and entry_id")
	}
	if n.MaxIterations < 1 || n.MaxIterations > MaxIterations {
		return fault.Invalid("max_iterations", "max_iterations must be 1 to %d", MaxIterations)
	}
	if !(n.Holdout >= MinHoldout && n.Holdout <= MaxHoldout) {
		return fault.Invalid("holdout", "holdout must be %g to %g", MinHoldout, MaxHoldout)
	}
	return nil
}

// Start creates an improve run and enqueues its first iteration. A suite
// without enough trigger queries is a Conflict.
func (s *Service) Start(ctx context.Context, caller access.Caller, n NewRun) (r Run, err error) {
	defer fault.Wrap(&err, "improve by suite %s", n.SuiteID)
	if err := n.Check(); err != nil {
		return r, err
	}
	suite, err := s.Suites.Get(ctx, caller.OrgID, n.SuiteID)
	if err != nil {
		return r, err
	}
	skill, err := s.Runs.Subjects().Find(ctx, caller.OrgID, n.Subject)
	if err != nil {
		return r, err
	}
	r = Run{
		ID: store.NewID(), OrgID: caller.OrgID, SuiteID: suite.ID, Status: runs.Queued,
		Subject: subject.Pin(n.Subject, skill), Description: text.Clean(skill.Description),
		MaxIterations: n.MaxIterations, Holdout: n.Holdout, Seed: subject.NewSeed(), Judge: s.Judge.Improving(),
		CreatedBy: caller.UserID, CreatedAt: store.Now(),
	}
	if err := r.setQueries(suite); err != nil {
		return r, err
	}
	if r.Distractors, err = s.Runs.Subjects().Distractors(ctx, r.OrgID, skill.Name, r.Seed); err != nil {
		return r, err
	}
	return r, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertRun(ctx, tx, r); err != nil {
			return err
		}
		if err := r.audit(ctx, tx, "evals.improve.start"); err != nil {
			return err
		}
		return s.enqueueIteration(ctx, tx, r.OrgID, r.ID, 0)
	})
}

// audit writes an entry of the audit log about the run.
func (r Run) audit(ctx context.Context, tx *store.Tx, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: r.OrgID, Action: action, Target: audit.Target{Kind: "improve_run", ID: r.ID, Name: r.Subject.Name},
		Detail: audit.Detail{"suite": r.SuiteID, "max_iterations": r.MaxIterations, "holdout": r.Holdout},
	})
}

// setQueries gives the run a copy of the suite's queries, split into training
// set and holdout.
func (r *Run) setQueries(suite suites.Suite) error {
	queries, leftOut, err := queriesOf(suite)
	if err != nil {
		return err
	}
	r.queries, r.LeftOut = splitQueries(queries, r.Holdout, r.Seed), leftOut
	for _, q := range r.queries {
		if q.HeldOut {
			r.HeldOut++
		} else {
			r.Train++
		}
	}
	r.Total = (1 + r.MaxIterations) * r.trialsPerIteration()
	return nil
}

// Get returns an improve run of the organisation.
func (s *Service) Get(ctx context.Context, orgID, id string) (r Run, err error) {
	defer fault.Wrap(&err, "improve run %s", id)
	if r, err = runByID(ctx, s.DB, orgID, id, ""); err != nil {
		return r, err
	}
	r.Iterations, err = iterationsOf(ctx, s.DB, id)
	return r, err
}

// Filter selects improve runs for List; zero fields match all.
type Filter struct {
	SuiteID       string
	Status        runs.Status
	Limit, Offset int
}

// List returns a page of the organisation's improve runs, newest first, and the
// total number.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Run, int, error) {
	return runsOfOrg(ctx, s.DB, orgID, f)
}

// Cancel ends an improve run that is not over; its results so far are kept.
// Cancelling a cancelled run is not an error, cancelling one that is over is a
// Conflict.
func (s *Service) Cancel(ctx context.Context, orgID, id string) (r Run, err error) {
	defer fault.Wrap(&err, "cancel improve run %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = runByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		if r.Iterations, err = iterationsOf(ctx, tx, id); err != nil || r.Status == runs.Cancelled {
			return err
		}
		if r.Status.Over() {
			return fault.New(fault.Conflict, "Improve run is already over: its status is %s", r.Status)
		}
		if err := r.finish(ctx, tx, runs.Cancelled, nil); err != nil {
			return err
		}
		return r.audit(ctx, tx, "evals.improve.cancel")
	})
	return r, err
}

// finish stores the end of a run, whose row is locked.
func (r *Run) finish(ctx context.Context, tx *store.Tx, status runs.Status, problem *string) error {
	at := store.Now()
	r.Status, r.Error, r.FinishedAt = status, problem, &at
	return updateRun(ctx, tx, *r)
}

// conclude ends a run after its last iteration. A winner becomes a proposal in
// the same transaction.
func (s *Service) conclude(ctx context.Context, tx *store.Tx, r Run, status runs.Status) error {
	r.Total = r.Done
	winner := r.winner()
	if winner == nil {
		return r.finish(ctx, tx, status, r.Iterations[0].Problem)
	}
	id, err := s.Proposals.Propose(ctx, tx, r.proposal(*winner))
	if err != nil {
		return err
	}
	r.Winner, r.ProposalID = &winner.N, &id
	return r.finish(ctx, tx, status, nil)
}

// proposal is the winner as a proposal. Its finding names the run, which makes
// Propose idempotent: a run has one proposal.
func (r Run) proposal(winner Iteration) proposals.Draft {
	current := r.Iterations[0]
	return proposals.Draft{
		OrgID: r.OrgID, SkillName: r.Subject.Name, Finding: "improve_run " + r.ID, ProposedBy: "improve_run",
		Type: proposals.Description, CurrentValue: &r.Description, ProposedValue: winner.Description,
		Reason: fmt.Sprintf("Of %d held-out trigger queries %d are right with this description, and %d with the current one; "+
			"of the %d that it was written from, %d and %d (judge: %s %s).",
			r.HeldOut, winner.HeldOut.Passed, current.HeldOut.Passed, r.Train, winner.Train.Passed, current.Train.Passed,
			r.Judge.API, r.Judge.Model),
		PassRateBefore: current.HeldOut.Rate(), ProjectedPassRate: winner.HeldOut.Rate(),
		Confidence: &winner.HeldOut.Interval()[0], // the lower bound
		Evidence: Evidence{
			ImproveRunID: r.ID, SuiteID: r.SuiteID, Iteration: winner.N, Judge: r.Judge,
			Train:   BeforeAfter{current.Train.Passed, winner.Train.Passed, r.Train},
			Holdout: BeforeAfter{current.HeldOut.Passed, winner.HeldOut.Passed, r.HeldOut},
		},
	}
}
