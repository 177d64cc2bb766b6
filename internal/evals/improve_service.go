package evals

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Proposer is told of descriptions that are better than what there is.
type Proposer interface {
	// Propose makes a proposal and returns its id; for the same run it is made
	// once.
	Propose(ctx context.Context, tx *store.Tx, i Improvement) (id string, err error)
}

// An Improvement is what an improve run has found.
type Improvement struct {
	OrgID, RunID      string
	SkillName         string
	Current, Proposed string  // descriptions
	Reason            string  // a sentence with the figures
	Before, After     float64 // pass rates of the held-out queries
	Confidence        float64 // the lower bound of After
	Evidence          ImproveEvidence
}

// ImproveEvidence is what an improvement rests on.
type ImproveEvidence struct {
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

// NewImproveRun is what a caller decides about an improve run.
type NewImproveRun struct {
	Subject       SkillRef // of a source or an entry
	SuiteID       string
	MaxIterations int     // 1 to 10
	Holdout       float64 // 0.1 to 0.9
}

func (n NewImproveRun) check() error {
	if (n.Subject.SourceID == "") == (n.Subject.EntryID == "") {
		return fault.Invalid("source_id", "give exactly one of source_id and entry_id")
	}
	return nil
}

// StartImprove makes an improve run, which begins when a worker is free. A
// suite that has not the queries for it is a Conflict.
func (s *Service) StartImprove(ctx context.Context, caller access.Caller, n NewImproveRun) (r ImproveRun, err error) {
	defer fault.Wrap(&err, "improve by suite %s", n.SuiteID)
	if err := n.check(); err != nil {
		return r, err
	}
	suite, err := s.Suite(ctx, caller.OrgID, n.SuiteID)
	if err != nil {
		return r, err
	}
	skill, err := s.Subjects.Subject(ctx, caller.OrgID, n.Subject)
	if err != nil {
		return r, err
	}
	r = ImproveRun{
		ID: store.NewID(), OrgID: caller.OrgID, SuiteID: suite.ID, Status: Queued, Subject: newTested(n.Subject, skill),
		Description: plainText(skill.Description), MaxIterations: n.MaxIterations, Holdout: n.Holdout,
		Seed: rand.Int64N(maxSeed), Judge: s.Judge.Improving(), //nolint:gosec // no secret in it
		CreatedBy: caller.UserID, CreatedAt: store.Now(),
	}
	if err := r.takeQueries(suite); err != nil {
		return r, err
	}
	others, err := s.Subjects.Distractors(ctx, r.OrgID, skill.Name)
	if err != nil {
		return r, err
	}
	r.Distractors = judge.Distractors(others, skill.Name, r.Seed)
	return r, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertImproveRun(ctx, tx, r); err != nil {
			return err
		}
		if err := r.record(ctx, tx, "evals.improve.start"); err != nil {
			return err
		}
		return s.enqueueIteration(ctx, tx, r.OrgID, r.ID, 0)
	})
}

// record writes down what was done to an improve run.
func (r ImproveRun) record(ctx context.Context, tx *store.Tx, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: r.OrgID, Action: action, Target: audit.Target{Kind: "improve_run", ID: r.ID, Name: r.Subject.Name},
		Detail: audit.Detail{"suite": r.SuiteID, "max_iterations": r.MaxIterations, "holdout": r.Holdout},
	})
}

// takeQueries gives the run the suite's queries, split.
func (r *ImproveRun) takeQueries(suite Suite) error {
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
	r.Total = (1 + r.MaxIterations) * r.trials()
	return nil
}

// ImproveRun returns an improve run of the organisation.
func (s *Service) ImproveRun(ctx context.Context, orgID, id string) (r ImproveRun, err error) {
	defer fault.Wrap(&err, "improve run %s", id)
	if r, err = improveRunHead(ctx, s.DB, orgID, id, ""); err != nil {
		return r, err
	}
	r.Iterations, err = iterationsOf(ctx, s.DB, id)
	return r, err
}

// An ImproveFilter says which improve runs to list; empty fields let all pass.
type ImproveFilter struct {
	SuiteID       string
	Status        Status
	Limit, Offset int
}

// ImproveRuns lists the organisation's improve runs, newest first, and their
// number.
func (s *Service) ImproveRuns(ctx context.Context, orgID string, f ImproveFilter) ([]ImproveRun, int, error) {
	return improveRunsOfOrg(ctx, s.DB, orgID, f)
}

// CancelImprove ends an improve run that is not over; what it has found is
// kept. Cancelling a cancelled one is not an error, cancelling one that came to
// its end is a Conflict.
func (s *Service) CancelImprove(ctx context.Context, orgID, id string) (r ImproveRun, err error) {
	defer fault.Wrap(&err, "cancel improve run %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = improveRunHead(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		if r.Iterations, err = iterationsOf(ctx, tx, id); err != nil || r.Status == Cancelled {
			return err
		}
		if r.Status.over() {
			return fault.New(fault.Conflict, "Improve run is already over: its status is %s", r.Status)
		}
		if err := r.end(ctx, tx, Cancelled, nil); err != nil {
			return err
		}
		return r.record(ctx, tx, "evals.improve.cancel")
	})
	return r, err
}

// end writes the end of a run, whose row is locked.
func (r *ImproveRun) end(ctx context.Context, tx *store.Tx, status Status, problem *string) error {
	at := store.Now()
	r.Status, r.Error, r.FinishedAt = status, problem, &at
	return updateImproveRun(ctx, tx, *r)
}

// conclude ends a run after its last iteration. A winner is proposed in the
// same transaction.
func (s *Service) conclude(ctx context.Context, tx *store.Tx, r ImproveRun, status Status) error {
	r.Total = r.Done
	winner := r.winner()
	if winner == nil {
		return r.end(ctx, tx, status, r.Iterations[0].Problem)
	}
	r.Winner = &winner.N
	if s.Proposer != nil {
		id, err := s.Proposer.Propose(ctx, tx, r.improvement(*winner))
		if err != nil {
			return err
		}
		r.ProposalID = &id
	}
	return r.end(ctx, tx, status, nil)
}

func (r ImproveRun) improvement(winner Iteration) Improvement {
	current := r.Iterations[0]
	i := Improvement{
		OrgID: r.OrgID, RunID: r.ID, SkillName: r.Subject.Name, Current: r.Description, Proposed: *winner.Description,
		After: *winner.HeldOut.Rate(), Before: *current.HeldOut.Rate(), Confidence: winner.HeldOut.Interval()[0],
		Evidence: ImproveEvidence{
			ImproveRunID: r.ID, SuiteID: r.SuiteID, Iteration: winner.N, Judge: r.Judge,
			Train:   BeforeAfter{current.Train.Passed, winner.Train.Passed, r.Train},
			Holdout: BeforeAfter{current.HeldOut.Passed, winner.HeldOut.Passed, r.HeldOut},
		},
	}
	i.Reason = fmt.Sprintf("Of %d held-out trigger queries %d are right with this description, and %d with the current one; "+
		"of the %d that it was written from, %d and %d (judge: %s %s).",
		r.HeldOut, winner.HeldOut.Passed, current.HeldOut.Passed, r.Train, winner.Train.Passed, current.Train.Passed, r.Judge.API, r.Judge.Model)
	return i
}
