package improve

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// A trial is an eval run of an improve run.
type trial struct {
	of    string // the improve run; only of a planned one
	n     int    // the iteration that it is made for
	step  step
	arm   arm
	runID string
}

// Made implements runs.Purpose.
func (t trial) Made() (runID string, reused bool) { return t.runID, false }

type (
	step string
	arm  string
)

const (
	current   step = "current"   // the current version, all cases
	rollout   step = "rollout"   // the parent of the next candidate, what is not known of its minibatch
	minibatch step = "minibatch" // the candidate
	selection step = "selection" // the candidate
	proof     step = "proof"     // the winner and the current version
	rest      step = "rest"      // the winner and the current version, all cases but those of the proof

	candidateArm arm = "candidate"
	currentArm   arm = "current"
)

// An execution is an improve run while a worker takes it further. It lives for one call of advance,
// and nothing of it is kept in memory between steps: any worker can make the next one.
type execution struct {
	s       *Service
	r       Run
	suite   suites.Suite
	trials  []trial
	evals   runs.Campaign // of the trials
	stopped stop          // what ended the search early
}

// advance takes a run one step further, and reports whether it waits for its eval
// runs. Each step is one transaction, so that after a crash the next call finds it
// made or not.
func (s *Service) advance(ctx context.Context, r Run) (wait bool, err error) {
	defer fault.Wrap(&err, "improve run %s", r.ID)
	// Runs from before there was a search in steps have no terms and can't be continued.
	if r.Terms.Trials == 0 {
		return false, s.end(ctx, r, FailedTransient, "the run was started by an earlier version of the service: start a new one")
	}
	x := &execution{s: s, r: r}
	if err := x.load(ctx); err != nil {
		return false, err
	}
	if waiting, err := x.await(ctx); waiting || err != nil {
		return waiting, err
	}
	// await may have ended the run.
	if x.r.Status.Over() {
		return false, nil
	}
	if err := x.unchanged(); err != nil {
		return false, err
	}
	switch {
	case r.Status == runs.Queued:
		return true, x.begin(ctx)
	case r.phase == scoring:
		return false, x.split(ctx)
	case r.phase == searching:
		return x.search(ctx)
	}
	return false, x.conclude(ctx)
}

// load reads the suite and the eval runs, and adds up what they cost.
func (x *execution) load(ctx context.Context) (err error) {
	r := &x.r
	if x.suite, err = x.s.Suites.Get(ctx, r.OrgID, r.SuiteID); err != nil {
		return err
	}
	if x.trials, err = trialsOf(ctx, x.s.DB, r.ID); err != nil {
		return err
	}
	x.evals, err = runs.LookAt(ctx, x.s.Runs, r.OrgID, x.trials)
	r.Done, r.Cost = x.evals.Done, r.writing
	r.Cost.Add(x.evals.Cost)
	return err
}

// await stores the progress, and reports whether an eval run is under way. It ends
// the improve run if one failed, or if a limit is reached. An improve run cannot go on without one
// of its eval runs: a missing score would favour one of the two sides.
func (x *execution) await(ctx context.Context) (waiting bool, err error) {
	r := &x.r
	if r.Status == runs.Queued {
		return false, nil
	}
	if err := x.s.DB.InTx(ctx, func(tx *store.Tx) error { return setProgress(ctx, tx, *r) }); err != nil {
		return false, err
	}
	if x.evals.Deleted {
		return false, x.end(ctx, FailedTerminal, "an eval run was deleted")
	}
	for _, e := range x.evals.Stopped {
		switch {
		case e.Status == runs.Cancelled:
			return false, x.end(ctx, FailedTerminal, "an eval run was cancelled")
		case e.Status == runs.Failed && *e.Error == runs.InternalError:
			return false, x.end(ctx, FailedTransient, *e.Error)
		case e.Status == runs.Failed:
			return false, x.end(ctx, FailedTerminal, *e.Error)
		}
	}
	// A limit that is reached while eval runs are under way ends the run at once; between steps,
	// search decides whether there is enough left for a proof.
	if reached := r.over(); reached.by != "" && !x.evals.Over {
		r.Terms.StoppedBy = reached.by
		return false, x.end(ctx, NoWinner, reached.why+", before there was a proof")
	}
	return !x.evals.Over, nil
}

// unchanged is a Problem if the judge or the cases are not those that the run began
// with: scores could not be compared. Other versions of the suite are fine as long as the cases of
// the run are the same.
func (x *execution) unchanged() error {
	now, then := x.s.writing(x.r.Terms.Target), x.r.Judge
	if now.API != then.API || now.Model != then.Model || now.PromptVersion != then.PromptVersion {
		return &runs.Problem{Code: "judge_changed", Message: fmt.Sprintf(
			"the run began with the judge %s %s, and the scores of another cannot be compared with its own: start a new run",
			then.API, then.Model)}
	}
	if x.suite.Version == x.r.Terms.SuiteVersion {
		return nil
	}
	digests := make(map[string]string, len(x.suite.Cases))
	for _, c := range x.suite.Cases {
		digests[c.ID] = caseDigest(c)
	}
	for _, c := range x.r.cases {
		if digests[c.ID] != c.Digest {
			return &runs.Problem{Code: "suite_changed", Message: "a case of the suite was changed or removed: start a new run"}
		}
	}
	return nil
}

// trial returns the eval run of a step.
func (x *execution) trial(n int, s step, a arm) (runs.Run, bool) {
	i := slices.IndexFunc(x.trials, func(t trial) bool { return t.n == n && t.step == s && t.arm == a })
	if i < 0 {
		return runs.Run{}, false
	}
	return x.evals.Runs[x.trials[i].runID], true
}

// A planned run is one that is about to be started. Planning reads much (skill, suite, prices), so
// it happens before the transaction that starts the run.
type planned = runs.Planned[trial]

// An order is a run to plan.
type order struct {
	trial
	subject subject.Ref
	cases   []string
	trials  int
	seed    int64
	share   int // how many runs share what is left of the budget
}

// plan prepares an eval run, with an equal share of what is left of the budget. It writes nothing.
func (x *execution) plan(ctx context.Context, o order) (p planned, err error) {
	r := x.r
	run, err := x.s.Runs.Plan(ctx, access.Caller{OrgID: r.OrgID, UserID: r.CreatedBy}, r.SuiteID, runs.NewRun{
		Subject: o.subject, Trials: o.trials, Baseline: runs.NoBaseline, Seed: o.seed, CaseIDs: o.cases,
		MaxMicros: r.microsLeft(o.share), ImproveRunID: &r.ID,
	})
	o.of, o.runID = r.ID, run.ID
	return planned{For: o.trial, Run: &run}, err
}

// start starts planned runs in a transaction with what else the step writes, unless
// the improve run is over, or another worker has made the step: the key of a trial is (run,
// iteration, step, arm), and the worker that loses the race writes nothing.
func (x *execution) start(ctx context.Context, all []planned, also func(tx *store.Tx, now Run) error) error {
	return x.change(ctx, func(tx *store.Tx, now Run) error {
		started, err := runs.StartPlanned(ctx, tx, x.s.Runs, all)
		if err != nil || !started {
			return err
		}
		return also(tx, now)
	})
}

// change calls fn with the run locked, unless it is over. A phase that has changed means that
// another worker has made this step; its work is dropped silently.
func (x *execution) change(ctx context.Context, fn func(tx *store.Tx, now Run) error) error {
	return x.s.DB.InTx(ctx, func(tx *store.Tx) error {
		now, err := lockRun(ctx, tx, x.r.OrgID, x.r.ID)
		if gone(err) || err == nil && (now.Status.Over() || now.phase != x.r.phase) {
			return nil
		}
		if err != nil {
			return err
		}
		now.Done, now.Cost, now.writing = x.r.Done, x.r.Cost, x.r.writing
		return fn(tx, now)
	})
}

// end ends the run without a winner.
func (x *execution) end(ctx context.Context, status runs.Status, message string) error {
	x.r.Status = status
	return x.s.end(ctx, x.r, status, message)
}

// end stores the end of a run that is not over. Trials that were planned and never made are taken
// off the total, so that the progress shows 100 %.
func (s *Service) end(ctx context.Context, r Run, status runs.Status, message string) error {
	message = runs.Truncate(message)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		now, err := lockRun(ctx, tx, r.OrgID, r.ID)
		if gone(err) || err == nil && now.Status.Over() {
			return nil
		}
		if err != nil {
			return err
		}
		now.Done, now.Total, now.Terms.StoppedBy = r.Done, r.Done, r.Terms.StoppedBy
		if err := updateSearch(ctx, tx, now); err != nil {
			return err
		}
		return now.finish(ctx, tx, status, &message)
	})
}

// begin starts the run of the current version on all cases.
func (x *execution) begin(ctx context.Context) error {
	r := x.r
	p, err := x.plan(ctx, order{
		trial: trial{step: current, arm: currentArm}, subject: r.subject(), cases: r.allCases(), trials: r.Terms.Trials,
		seed: r.Seed, share: 1,
	})
	if err != nil {
		return err
	}
	return x.start(ctx, []planned{p}, func(tx *store.Tx, now Run) error { return markRunStarted(ctx, tx, now.ID, store.Now()) })
}

// split takes the scores of the current version as iteration 0 and decides what each case is for.
// It is done after the scoring, so that the failing cases are spread over all three parts.
func (x *execution) split(ctx context.Context) error {
	r := &x.r
	run, ok := x.trial(0, current, currentArm)
	if !ok {
		return x.begin(ctx)
	}
	results, problem, err := x.results(ctx, run.ID)
	if err != nil {
		return err
	}
	passed, decided := 0, 0
	for _, got := range results {
		if got.Verdict.Decided() {
			decided++
		}
		if got.Verdict == runs.Pass {
			passed++
		}
	}
	// Without a verdict on the current version there is nothing to compare with. Whether another
	// attempt makes sense depends on whether the judge was to blame.
	switch {
	case run.Status == runs.BudgetSpent:
		x.r.Terms.StoppedBy = byCost
		return x.end(ctx, FailedTerminal, "the budget was spent before the current version was scored")
	case decided == 0 && strings.Contains(problem, string(judge.Unavailable)),
		decided == 0 && strings.Contains(problem, string(judge.Timeout)):
		return x.end(ctx, FailedTransient, problem)
	case decided == 0:
		return x.end(ctx, FailedTerminal, problem)
	}
	retired, err := retiredOf(ctx, x.s.DB, r.SuiteID)
	if err != nil {
		return err
	}
	cases := searchCases(r.cases, retired, func(id string) bool { return results[id].Verdict != runs.Pass })
	for i, part := range search.Split(cases, r.Holdout, least(r.Terms.Target), r.Seed) {
		r.cases[i].Part = part
	}
	it := Iteration{Description: &r.Description, SkillMD: r.skillMD, results: results}
	it.count(*r)
	if problem != "" {
		it.Problem = &problem
	}
	rate := float64(passed) / float64(decided)
	return x.change(ctx, func(tx *store.Tx, now Run) error {
		isNew, err := insertIteration(ctx, tx, now.ID, it)
		if err != nil || !isNew {
			return err
		}
		now.phase = searching
		if err := updateSearch(ctx, tx, now); err != nil {
			return err
		}
		if err := updateCases(ctx, tx, *r); err != nil {
			return err
		}
		// Few failing cases can't be told from noise, so nothing could be proved. The run ends
		// before it costs more.
		if rate > saturated {
			now.Total = now.Done
			message := fmt.Sprintf(nothingToGain, 100*rate, 100*saturated)
			return now.finish(ctx, tx, NoWinner, &message)
		}
		return updateRun(ctx, tx, now)
	})
}

// results reads the outcome of an eval run by case, and says what is wrong with it
// if more than a few trials have no verdict.
func (x *execution) results(ctx context.Context, runID string) (all map[string]result, problem string, err error) {
	report, err := x.s.Runs.Report(ctx, x.r.OrgID, runID, "")
	if err != nil {
		return nil, "", err
	}
	all = make(map[string]result, len(report.Cases))
	// The last error stands for all of them: they nearly always have one cause.
	undecided, last := 0, ""
	for i, c := range report.Cases {
		got := result{Verdict: *report.Results[i].Verdict, RunID: runID}
		for _, t := range report.Results[i].Trials {
			switch t.Verdict {
			case runs.Pass:
				got.Passed++
				got.Decided++
			case runs.Fail:
				got.Decided++
			case runs.Error, runs.Skipped:
				if t.Error != nil {
					last = *t.Error
				}
			}
		}
		if !got.Verdict.Decided() {
			undecided++
		}
		all[c.ID] = got
	}
	if undecided > 0 {
		problem = strings.TrimSuffix(fmt.Sprintf("%d of %d cases have no verdict; the last: %s", undecided, len(all), last),
			"; the last: ")
	}
	return all, problem, nil
}

// count adds up the scores of an iteration. The current version counts on all training cases; a
// candidate only on its minibatch, since it hasn't seen the others.
func (it *Iteration) count(r Run) {
	it.Train, it.HeldOut, it.Errors = Score{}, Score{}, 0
	for _, c := range r.cases {
		got, ok := it.results[c.ID]
		if !ok {
			continue
		}
		switch {
		case c.Part == search.Train && (it.N == 0 || slices.Contains(it.minibatch, c.ID)):
			it.Train.add(got)
		case c.Part == search.Selection:
			it.HeldOut.add(got)
		}
		if !got.Verdict.Decided() {
			it.Errors++
		}
	}
}

// pairs compares results on cases, as the search wants them.
func pairs(ids []string, before, now map[string]result) []decision.Case {
	all := make([]decision.Case, len(ids))
	for i, id := range ids {
		all[i] = decision.Case{
			ID: id, Current: decision.Count{Passed: before[id].Passed, Decided: before[id].Decided},
			New: decision.Count{Passed: now[id].Passed, Decided: now[id].Decided},
		}
	}
	return all
}

// isHopeless reports whether the judge would refuse every other request, too:
// the key is wrong, or the model does not exist.
func isHopeless(err *judge.Error) bool { return err.Stop || err.Status == http.StatusNotFound }
