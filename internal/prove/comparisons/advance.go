package comparisons

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
)

// advance is the job that waits for the runs of a comparison, asks for preferences, and decides.
type advance struct {
	OrgID string `json:"org_id"`
	ID    string `json:"id"`
}

// Kind names the job.
func (advance) Kind() string { return "evals.compare" }

// Org makes the queue schedule the job as a run of the organisation: asking for preferences
// takes minutes.
func (a advance) Org() string { return a.OrgID }

// How soon and how seldom a comparison looks at its runs: see runs.Poll.
const (
	minPoll = 20 * time.Millisecond
	maxPoll = 5 * time.Second
)

// Register makes the queue run the jobs of comparisons.
func (s *Service) Register() { jobs.Handle(s.Jobs, s.step) }

// step takes a comparison one step further, or cleans up after one that is over.
func (s *Service) step(ctx context.Context, args advance) error {
	c, err := comparisonByID(ctx, s.DB, args.OrgID, args.ID, "")
	if fault.Is(err, fault.NotFound) {
		return nil // deleted with its organisation
	}
	if err != nil {
		return err
	}
	if c.Status.Over() {
		return s.cancelRuns(ctx, c)
	}
	rest, err := s.advance(ctx, c)
	if err == nil && rest > 0 {
		// Shortly before the end it looks often: nobody waits long for the result of a short comparison.
		return runs.Poll(c.StartedAt, minPoll, min(maxPoll, max(minPoll, rest/4)))
	}
	if err == nil {
		return jobs.Snooze(0)
	}
	// A shutdown is no failure: the job runs again in another process.
	if attempt, last := jobs.Attempt(ctx); !judge.MustStop(err) && (ctx.Err() != nil || attempt < last) {
		return err
	}
	if e, ok := errors.AsType[*judge.Error](err); ok { // the runs are over, and what they showed stands
		return s.end(ctx, c, runs.Failed, "The judge could not compare the outputs: "+e.Message)
	}
	s.Log.ErrorContext(ctx, "a comparison failed", "comparison", c.ID, "error", err)
	return s.endAs(ctx, c, runs.Failed, "Something went wrong; the log of the service says what.", nil)
}

// cancelRuns stops the runs of a comparison that ended early. Those that it reuses are over.
func (s *Service) cancelRuns(ctx context.Context, c Comparison) error {
	return runs.CancelAll(ctx, s.Runs, c.OrgID, c.Arms)
}

// advance makes one step, and returns for how long the runs will probably go on; 0 once they are over.
func (s *Service) advance(ctx context.Context, c Comparison) (rest time.Duration, err error) {
	defer fault.Wrap(&err, "comparison %s", c.ID)
	now, err := runs.LookAt(ctx, s.Runs, c.OrgID, c.Arms)
	if err != nil {
		return 0, err
	}
	if now.Deleted {
		return 0, s.endAs(ctx, c, runs.Failed, "The suite was deleted.", nil)
	}
	// A failed or cancelled run ends the comparison at once: the other arms alone answer nothing, and
	// their trials would cost for nothing. A spent budget leaves what is known.
	status := runs.Succeeded
	for _, r := range now.Stopped {
		switch r.Status {
		case runs.Failed:
			reason := "it failed"
			if r.Error != nil {
				reason = *r.Error
			}
			problem := fmt.Sprintf("The arm %q could not be tried: %s", c.armOf(r.ID), reason)
			return 0, s.endAs(ctx, c, runs.Failed, problem, nil)
		case runs.Cancelled:
			problem := fmt.Sprintf("The run of the arm %q was cancelled.", c.armOf(r.ID))
			return 0, s.endAs(ctx, c, runs.Cancelled, problem, nil)
		default:
			status = runs.BudgetSpent
		}
	}
	if c.StartedAt == nil && (now.StartedAt != nil || now.Over) {
		if err := s.begin(ctx, c); err != nil {
			return 0, err
		}
	}
	if !now.Over {
		total := 0
		for _, r := range now.Runs {
			total += r.Total
		}
		took := max(minPoll, runs.Elapsed(c.StartedAt))
		return max(minPoll, time.Duration(float64(took)*float64(total-now.Done)/float64(max(1, now.Done)))), nil
	}
	// The judge is paid for last, when every arm has its outputs.
	if status == runs.Succeeded && c.Preference {
		done, err := s.prefer(ctx, c)
		if errors.Is(err, errBudget) {
			return 0, s.end(ctx, c, runs.BudgetSpent, "")
		}
		if err != nil || !done {
			return 0, err
		}
	}
	return 0, s.end(ctx, c, status, "")
}

func (c Comparison) armOf(runID string) string {
	for _, a := range c.Arms {
		if a.runID == runID {
			return a.Name
		}
	}
	return ""
}

// begin makes a queued comparison a running one.
func (s *Service) begin(ctx context.Context, c Comparison) error {
	return s.change(ctx, c, func(now *Comparison) {
		at := store.Now()
		now.Status, now.StartedAt = runs.Running, &at
	})
}

// change changes a comparison that is not over, under its lock.
func (s *Service) change(ctx context.Context, c Comparison, fn func(now *Comparison)) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		now, err := comparisonByID(ctx, tx, c.OrgID, c.ID, tx.Dialect().ForUpdate())
		if err != nil || now.Status.Over() {
			return err
		}
		fn(&now)
		return updateComparison(ctx, tx, now)
	})
}

// end stores what the runs showed, which are over. problem is "" unless something else failed.
func (s *Service) end(ctx context.Context, c Comparison, status runs.Status, problem string) error {
	result, err := s.result(ctx, c)
	if err != nil {
		return err
	}
	if status == runs.BudgetSpent {
		result.Recommendation.Kind, result.Recommendation.Arm = "none", nil
		result.Recommendation.Reason = "The spending limit was reached before all trials were made."
	}
	return s.endAs(ctx, c, status, problem, result)
}

func (s *Service) endAs(ctx context.Context, c Comparison, status runs.Status, problem string, result *Result) error {
	return s.change(ctx, c, func(now *Comparison) {
		at := store.Now()
		now.Status, now.Result, now.EndedAt = status, result, &at
		if problem != "" {
			now.Error = &problem
		}
	})
}

// result computes all figures from the trials.
func (s *Service) result(ctx context.Context, c Comparison) (*Result, error) {
	outcomes, sides := make([]Outcome, len(c.Arms)), make([]runs.Side, len(c.Arms))
	r := &Result{Arms: make([]api.ComparedArm, len(c.Arms)), Pairs: []api.ComparedPair{}}
	var cost spend.Cost
	var ids []string // of the cases
	reports, err := s.Runs.Measured(ctx, c.OrgID, c.runIDs()...)
	if err != nil {
		return nil, err
	}
	for i, a := range c.Arms {
		report := reports[i]
		sides[i] = report.Side()
		r.Arms[i], outcomes[i] = figures(a, report, sides[i])
		if !a.reused && report.Cost != nil {
			cost.Add(*report.Cost)
		}
		ids = ids[:0]
		for _, of := range report.Cases {
			ids = append(ids, of.ID)
		}
	}
	preferences, asked, err := s.preferences(ctx, c)
	if err != nil {
		return nil, err
	}
	cost.Add(asked)
	r.CostUSD = cost.USD()
	pairs := Pairs(outcomes)
	for _, p := range pairs {
		efforts := runs.CompareEfforts(sides[p.A], sides[p.B])
		out := api.ComparedPair{
			A: c.Arms[p.A].Name, B: c.Arms[p.B].Name, Cases: p.Cases, Difference: p.Difference, Interval: p.Interval, P: p.P,
			Verdict: p.Verdict, Better: []string{}, Worse: []string{},
			Cost: efforts.Cost, Tokens: efforts.Tokens, Turns: efforts.Turns, Duration: efforts.Duration,
			Preference: preferences[[2]int{p.A, p.B}],
		}
		if p.Reason != "" {
			out.Reason = &p.Reason
		}
		for _, i := range p.Better {
			out.Better = append(out.Better, ids[i])
		}
		for _, i := range p.Worse {
			out.Worse = append(out.Worse, ids[i])
		}
		r.Pairs = append(r.Pairs, out)
	}
	r.Recommendation = Recommend(outcomes, pairs, c.Margin)
	return r, nil
}

// figures are those of one arm.
func figures(a Arm, report runs.Report, side runs.Side) (api.ComparedArm, Outcome) {
	out := a.output()
	o := Outcome{Name: a.Name, NoSkill: a.NoSkill(), Counts: side.Counts, Free: true}
	passed := 0
	var decided []runs.Trial
	for i, count := range side.Counts {
		if count.Decided > 0 {
			out.Cases++
		}
		passed += count.Passed
		decided = append(decided, side.Trials[i]...)
	}
	m := report.Summary
	if m.Score != nil {
		out.Score, out.Interval = &m.Score.Value, &m.Score.Interval
	}
	out.PassK, out.Errors = m.PassK, m.TrialErrors
	if cost := report.Cost; cost != nil && cost.Requests > 0 {
		o.Free, out.CostUSD = false, cost.USD()
		if out.CostUSD != nil && passed > 0 {
			each := *out.CostUSD / float64(passed)
			out.PerPass, o.PerPass = &each, &each
		}
	}
	out.Turns, out.Duration = runs.Mean(decided, runs.Trial.TurnCount), runs.Mean(decided, runs.Trial.DurationMS)
	part := func(of func(api.CostTokens) int64) *float64 {
		return runs.Mean(decided, func(t runs.Trial) *float64 {
			if t.Evidence.Cost == nil {
				return nil
			}
			n := float64(of(t.Evidence.Cost.Tokens))
			return &n
		})
	}
	if input := part(func(t api.CostTokens) int64 { return t.Input }); input != nil {
		out.Tokens = &api.CostTokens{
			Input:      int64(*input + 0.5),
			Output:     int64(*part(func(t api.CostTokens) int64 { return t.Output }) + 0.5),
			CacheRead:  int64(*part(func(t api.CostTokens) int64 { return t.CacheRead }) + 0.5),
			CacheWrite: int64(*part(func(t api.CostTokens) int64 { return t.CacheWrite }) + 0.5),
		}
	}
	return out, o
}
