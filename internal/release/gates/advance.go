package gates

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// A trialRun is a run of a suite for a gate. It is a row of gate_runs; a run that several gates
// share has one in each of them.
type trialRun struct {
	gateID, suiteID string
	step            step
	arm             arm
	// runID is that of a run in the package runs, which may be deleted together with its suite.
	runID     string
	versionID string
	// conditions are those of the run, after the version of the suite: "3:5f0c...".
	conditions string
	reused     bool // an earlier gate made the run
}

// Made implements runs.Purpose.
func (r trialRun) Made() (runID string, reused bool) { return r.runID, r.reused }

// A Run says what a run was made for. Several gates may share one.
type Run struct {
	ID           string // the run may be deleted
	Arm          string // new, current
	Step         string // screen, repeat, confirm
	SuiteVersion int64
}

type (
	step string
	arm  string
)

const (
	screen  step = "screen"  // all cases
	repeat  step = "repeat"  // all cases, instead of a comparison with trials of another day
	confirm step = "confirm" // fresh trials of those that look worse

	newArm     arm = "new"
	currentArm arm = "current"
)

// advance takes a gate one step further, and reports whether it waits for its
// runs. Each step is one transaction, so that after a crash the next call finds
// it made or not. Nothing wakes a gate when its runs end: while wait is true, the job polls
// (see maxPoll).
func (s *Service) advance(ctx context.Context, g Gate) (wait bool, err error) {
	defer fault.Wrap(&err, "gate %s", g.ID)
	all, err := runsOfGates(ctx, s.DB, g.ID)
	if err != nil {
		return false, err
	}
	if !g.Status.Open() {
		// The gate ended while this job waited, or the process died after conclude and before
		// end cancelled the runs. Cancelling is idempotent.
		return false, runs.CancelAll(ctx, s.Runs, g.OrgID, all)
	}
	if g.Status == Queued {
		return s.begin(ctx, g)
	}
	if g.holds() {
		// More trials would cost money for a verdict that is never used.
		e, v, err := s.Registry.Version(ctx, g.OrgID, g.EntryID, g.Version)
		if err != nil {
			return false, err
		}
		stale, err := s.stale(ctx, s.DB, e, v, g)
		if err != nil {
			return false, err
		}
		if v.State != registry.Candidate || stale {
			// conclude finds out in its transaction, and writes no verdict.
			return s.end(ctx, g, all, decision.Inconclusive, "", g.Result)
		}
	}
	progress, err := s.progress(ctx, g, all)
	if err != nil {
		return false, err
	}
	result := Result{Floors: g.Result.Floors, CostUSD: progress.cost, Interrupted: progress.interrupted}
	// Whatever the other trials show: a version must not pass because its hard cases couldn't
	// run.
	if progress.problem != "" {
		return s.end(ctx, g, all, decision.Inconclusive, progress.problem, result)
	}
	compared, err := s.compare(ctx, g, all)
	if err != nil {
		return false, err
	}
	// Only a block may come early. A pass needs all cases.
	if !progress.over {
		if result.Suites = compared.early(all); result.Suites == nil {
			return true, nil
		}
		return s.end(ctx, g, all, decision.Block, "so many cases got worse that the others need not be tried", result)
	}
	// All cases are repeated only after a screen that blocked, so the question is then the same
	// as after an earlier block: whether it is lifted.
	policy := decision.Policy{MinCases: g.Policy.MinCases, Blocked: compared.repeated}
	if !policy.Blocked {
		if policy.Blocked, err = s.blockedBefore(ctx, g); err != nil {
			return false, err
		}
	}
	result.Lifting = policy.Blocked
	d := decision.Decide(compared.suites(), policy)
	var started bool
	// At most one more step each: repeat comes before confirm, and neither is made twice.
	if old := compared.restsOnOld(d); old != nil {
		started, err = true, s.startAgain(ctx, g, repeat, g.Policy.Trials, old)
	} else if d.Again != nil && !compared.confirmed {
		started, err = true, s.startAgain(ctx, g, confirm, decision.FreshTrials, d.Again)
	}
	if started {
		if problem := unrunnable(err); problem != "" {
			return s.end(ctx, g, all, decision.Inconclusive, problem, result)
		}
		return true, err
	}
	result.Suites = compared.output(d, all)
	verdict, reason := d.Verdict, d.Reason
	// Without another version the tests have nothing to say; the floors still do.
	if g.AgainstID == nil {
		verdict, reason = compared.alone(g.Policy)
	}
	// A floor turns a verdict into a block, but never an inconclusive one: too few cases were
	// decided to know the rate, either.
	if g.Policy.Floors.needTrials() && verdict != decision.Inconclusive {
		floors := compared.floors(g.Policy.Floors)
		result.Floors = append(result.Floors, floors...)
		for _, f := range floors {
			if !f.Passed && verdict != decision.Block {
				verdict, reason = decision.Block, fmt.Sprintf("%s is %s, and the policy wants %s", f.Name, f.Got, f.Want)
			}
		}
	}
	return s.end(ctx, g, all, verdict, reason, result)
}

// blockedBefore reports whether an earlier gate of the pool blocked.
func (s *Service) blockedBefore(ctx context.Context, g Gate) (bool, error) {
	if len(g.Previous) == 0 {
		return false, nil
	}
	verdicts, err := s.Verdicts(ctx, g.OrgID, g.Previous)
	for _, v := range verdicts {
		if v != nil && *v == decision.Block {
			return true, err
		}
	}
	return false, err
}

// end concludes a gate and stops its runs. The verdict is committed first: if the process dies
// before the runs are cancelled, the next attempt of the job finds the gate closed and cancels
// them.
func (s *Service) end(
	ctx context.Context, g Gate, all []trialRun, verdict decision.Verdict, reason string, result Result,
) (bool, error) {
	var err error
	if err = s.addEfforts(ctx, g, all, result.Suites); err != nil {
		return false, err
	}
	if result.Suites, err = s.addChanges(ctx, g, all, result.Suites); err != nil {
		return false, err
	}
	if err := s.conclude(ctx, g, verdict, reason, result); err != nil {
		return false, err
	}
	return false, runs.CancelAll(ctx, s.Runs, g.OrgID, all)
}

// begin checks what needs no trials, and starts the runs of the first step. Everything that can
// end the gate for free comes first: floors that need no trials, no version to compare with, no
// suite.
func (s *Service) begin(ctx context.Context, g Gate) (wait bool, err error) {
	floors, err := s.staticFloors(ctx, g)
	if err != nil {
		return false, err
	}
	g.Result.Floors = floors
	for _, f := range floors {
		if !f.Passed {
			reason := fmt.Sprintf("%s is %s, and the policy wants %s", f.Name, f.Got, f.Want)
			return s.end(ctx, g, nil, decision.Block, reason, g.Result)
		}
	}
	if g.AgainstID == nil && !g.Policy.Floors.needTrials() {
		return s.end(ctx, g, nil, decision.Skipped, "there is no version to compare with", g.Result)
	}
	planned, problem, err := s.planScreen(ctx, g)
	if err != nil {
		return false, err
	}
	if problem != "" {
		return s.end(ctx, g, nil, decision.Inconclusive, problem, g.Result)
	}
	if len(planned) == 0 {
		return s.withoutSuites(ctx, g)
	}
	return true, s.start(ctx, g, planned)
}

// withoutSuites ends a gate that has nothing to ask. Where it is enforced and had suites
// before, somebody took them away, and nothing is known of the version.
func (s *Service) withoutSuites(ctx context.Context, g Gate) (bool, error) {
	had := false
	if g.Policy.Mode == Enforce {
		var err error
		if had, err = s.hadSuites(ctx, g); err != nil {
			return false, err
		}
	}
	if had {
		return s.end(ctx, g, nil, decision.Inconclusive, "no suite is left that has cases for this skill", g.Result)
	}
	return s.end(ctx, g, nil, decision.Skipped, "no suite has cases for this skill", g.Result)
}

// hadSuites reports whether a gate of the entry ever ran a suite, or the skill ever had one.
func (s *Service) hadSuites(ctx context.Context, g Gate) (bool, error) {
	if ran, err := ranSuites(ctx, s.DB, g.EntryID); ran || err != nil {
		return ran, err
	}
	e, err := s.Registry.Own(ctx, g.OrgID, g.EntryID)
	if err != nil || e.SkillID == nil {
		return false, err
	}
	return s.Suites.Ever(ctx, s.DB, g.OrgID, *e.SkillID)
}

// A plannedRun is one that a gate is about to start, or to share with an earlier
// one. Planning resolves and checks everything outside the transaction; start only writes.
type plannedRun = runs.Planned[trialRun]

// planScreen plans the runs of all cases on both versions. A suite that cannot be
// run any more is a problem for people, not an error.
func (s *Service) planScreen(ctx context.Context, g Gate) (all []plannedRun, problem string, err error) {
	ids, err := s.suitesOf(ctx, g)
	if err != nil {
		return nil, "", err
	}
	for _, id := range ids {
		some, err := s.planSuite(ctx, g, id)
		if problem := unrunnable(err); problem != "" {
			return nil, problem, nil
		}
		if err != nil {
			return nil, "", err
		}
		all = append(all, some...)
	}
	return all, "", nil
}

// unrunnable says why a suite cannot be run, if that is what the error is about:
// it was deleted or changed, or the policy's agent or budget does not fit. "" for
// any other error. Retrying wouldn't help with any of these, and a gate that keeps failing
// would hold its candidate until the job's attempts are used up.
func unrunnable(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.NotFound && f.Kind != fault.Conflict && f.Kind != fault.Malformed {
		return ""
	}
	message := f.Message
	if len(f.Issues) > 0 {
		message = f.Issues[0].Message
	}
	return "a suite of the policy cannot be run: " + message
}

// suitesOf returns the suites of the gate's policy, or else those of the skill.
func (s *Service) suitesOf(ctx context.Context, g Gate) ([]string, error) {
	if len(g.Policy.Suites) > 0 {
		return g.Policy.Suites, nil
	}
	e, err := s.Registry.Own(ctx, g.OrgID, g.EntryID)
	if err != nil || e.SkillID == nil {
		return nil, err
	}
	return s.SuitesOf(ctx, g.OrgID, g.Policy, *e.SkillID)
}

// SuitesOf returns the ids of a policy's suites, or, if it names none, of those of
// the skill's cloud sources that can be run. At most maxSuites are returned. Those that can't
// be run are skipped, because nobody chose them; a policy that names one makes the gate
// inconclusive instead.
func (s *Service) SuitesOf(ctx context.Context, orgID string, p Policy, skillID string) ([]string, error) {
	if len(p.Suites) > 0 {
		return p.Suites, nil
	}
	of, err := s.Sources.List(ctx, orgID, sources.Filter{SkillID: skillID})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, src := range of {
		found, err := s.Suites.OfSource(ctx, s.DB, orgID, src.ID)
		if err != nil {
			return nil, err
		}
		for _, suite := range found {
			if suite.Runnable() && len(ids) < maxSuites {
				ids = append(ids, suite.ID)
			}
		}
	}
	return ids, nil
}

// planSuite plans the runs of a suite on both versions, under the same conditions.
// The trials of the current version are those of an earlier gate where they are of
// the last 24 hours and the conditions agree; they do if the new version gets the same
// seed. A gate that is run again makes its own: it adds trials of both.
func (s *Service) planSuite(ctx context.Context, g Gate, suiteID string) ([]plannedRun, error) {
	suite, err := s.Suites.Get(ctx, g.OrgID, suiteID)
	if err != nil {
		return nil, err
	}
	n := runs.NewRun{
		Subject: g.subject(), Trials: g.Policy.Trials, Baseline: runs.NoBaseline,
	}
	var earlier trialRun
	known := false
	if g.AgainstID != nil {
		if earlier, known, err = s.earlierRun(ctx, g, suiteID, &n); err != nil {
			return nil, err
		}
	}
	// Whether the skill helps at all is asked anew when the suite has changed.
	if of, _, _ := strings.Cut(earlier.conditions, ":"); suite.WithoutASkill() && of != fmt.Sprint(suite.Version) {
		n.Baseline = runs.NoSkill
	}
	// The new version's run is planned first: only a planned run has the conditions that the
	// earlier one must agree with.
	fresh, err := s.planRun(ctx, g, suite, n, screen, newArm, g.VersionID)
	if err != nil || g.AgainstID == nil {
		return []plannedRun{fresh}, err
	}
	if known && earlier.conditions == fresh.For.conditions {
		earlier.gateID, earlier.arm, earlier.reused = g.ID, currentArm, true
		return []plannedRun{fresh, {For: earlier}}, nil
	}
	current, err := s.planCurrent(ctx, g, suite, n, screen, fresh)
	return []plannedRun{fresh, current}, err
}

// planCurrent plans the run of the current version under the conditions of the new
// one's, which is created after it: of two runs that people compare, the earlier is
// the one before.
func (s *Service) planCurrent(
	ctx context.Context, g Gate, suite suites.Suite, n runs.NewRun, at step, fresh plannedRun,
) (current plannedRun, err error) {
	n.Subject, n.Seed, n.Baseline = g.current(), fresh.Run.Seed, runs.NoBaseline
	if current, err = s.planRun(ctx, g, suite, n, at, currentArm, *g.AgainstID); err != nil {
		return current, err
	}
	current.Run.CreatedAt, fresh.Run.CreatedAt = fresh.Run.CreatedAt, current.Run.CreatedAt
	return current, nil
}

// reusable is for how long trials of the current version serve other gates: models and
// judges drift, and a difference between two days would look like one between versions.
const reusable = 24 * time.Hour

// earlierRun finds the newest run of the current version on a suite and, where it may be
// reused, sets its seed. A run that is missing, unfinished or too old is not an error; known is
// false then, though r still has its conditions.
func (s *Service) earlierRun(ctx context.Context, g Gate, suiteID string, n *runs.NewRun) (r trialRun, known bool, err error) {
	r, known, err = lastScreen(ctx, s.DB, *g.AgainstID, suiteID, g.ID)
	if err != nil || !known {
		return r, false, err
	}
	run, err := s.Runs.Get(ctx, g.OrgID, r.runID)
	switch {
	case fault.Is(err, fault.NotFound):
		return r, false, nil
	case err != nil || run.Status != runs.Succeeded || len(g.Previous) > 0 || time.Since(run.CreatedAt) > reusable:
		return r, false, err
	}
	// Another seed would change the conditions, and the trials could not be compared.
	n.Seed = run.Seed
	return r, true, nil
}

// planRun plans one run and computes its conditions. It acts for the person who made the gate.
// The spending limit holds for each run; progress checks it for their sum.
func (s *Service) planRun(
	ctx context.Context, g Gate, suite suites.Suite, n runs.NewRun, at step, of arm, versionID string,
) (p plannedRun, err error) {
	n.MaxMicros = spend.Micros(g.Policy.MaxCostUSD)
	if n.Agent, err = g.Policy.agent(); err != nil {
		return p, err
	}
	run, err := s.Runs.Plan(ctx, access.Caller{OrgID: g.OrgID, UserID: g.CreatedBy}, suite.ID, n)
	if err != nil {
		return p, err
	}
	conditions, err := run.Conditions()
	return plannedRun{For: trialRun{
		gateID: g.ID, suiteID: suite.ID, step: at, arm: of, runID: run.ID, versionID: versionID,
		conditions: fmt.Sprintf("%d:%s", suite.Version, conditions),
	}, Run: &run}, err
}

// setPool says which gates ask the same question of the same files as one whose runs are
// planned. The pool is a digest of the content, of the version to compare with and of the
// questions of all suites. Whoever changes a case asks another question, and starts a pool of
// its own.
func (s *Service) setPool(ctx context.Context, q store.Querier, g *Gate, planned []plannedRun) error {
	of := sha256.New()
	for _, p := range planned {
		if p.Run == nil || p.For.arm != newArm {
			continue
		}
		// The gate of a pull request knows its content only now.
		if g.Content == "" {
			g.Content = p.Run.Subject.ContentHash
		}
		question, err := p.Run.Question()
		if err != nil {
			return err
		}
		fmt.Fprintln(of, p.For.suiteID, question)
	}
	fmt.Fprintln(of, g.Content, deref(g.AgainstID))
	g.Pool = hex.EncodeToString(of.Sum(nil))
	return findPool(ctx, q, g)
}

// start starts planned runs, unless the gate is over, or another worker has
// started them.
func (s *Service) start(ctx context.Context, g Gate, planned []plannedRun) error {
	return s.change(ctx, g.OrgID, g.ID, func(tx *store.Tx, _ registry.Entry, _ registry.Version, now Gate) error {
		// Two workers may hold the job after a lease ran out: the other one has begun.
		if now.Status != g.Status {
			return nil
		}
		started, err := runs.StartPlanned(ctx, tx, s.Runs, planned)
		if err != nil || !started {
			return err
		}
		// Later steps ask the same question.
		if planned[0].For.step == screen {
			if err := s.setPool(ctx, tx, &now, planned); err != nil {
				return err
			}
			if err := updatePool(ctx, tx, now); err != nil {
				return err
			}
		}
		at := store.Now()
		now.Status, now.Result = Running, g.Result
		// Later steps don't restart the clock.
		now.StartedAt = cmp.Or(now.StartedAt, &at)
		return updateGate(ctx, tx, now)
	})
}

// startAgain tries cases of suites again on both versions; nil: all of a suite. Conditions and
// seed are planned anew, the same for both versions.
func (s *Service) startAgain(ctx context.Context, g Gate, at step, trials int, again map[string][]string) error {
	var planned []plannedRun
	for suiteID, ids := range again {
		suite, err := s.Suites.Get(ctx, g.OrgID, suiteID)
		if err != nil {
			return err
		}
		n := runs.NewRun{Subject: g.subject(), Trials: trials, Baseline: runs.NoBaseline, CaseIDs: ids}
		fresh, err := s.planRun(ctx, g, suite, n, at, newArm, g.VersionID)
		if err != nil {
			return err
		}
		if at == repeat { // beside all of today's trials of the new version, the first ones too
			n.Trials = min(2*trials, runs.MaxTrials)
		}
		current, err := s.planCurrent(ctx, g, suite, n, at, fresh)
		if err != nil {
			return err
		}
		planned = append(planned, fresh, current)
	}
	return s.start(ctx, g, planned)
}

// progress is where the runs of a gate stand.
type progress struct {
	over    bool
	cost    *float64 // nil if a price is unknown
	problem string   // why the gate cannot decide
	// interrupted says that a person's action is the reason: Gate.Releases then holds the
	// candidate even if the policy lets inconclusive versions pass.
	interrupted bool
}

// maxWait is how long the trials of a gate may wait for a place. It is added to the policy's
// time limit, which counts from the first trial.
const maxWait = 24 * time.Hour

// progress sums up the runs of a gate and checks the policy's limits on cost and time.
func (s *Service) progress(ctx context.Context, g Gate, all []trialRun) (p progress, err error) {
	c, err := runs.LookAt(ctx, s.Runs, g.OrgID, all)
	if err != nil {
		return p, err
	}
	if c.Deleted {
		return progress{problem: "a suite was deleted while the gate was running", interrupted: true}, nil
	}
	// One model without a known price makes the sum unknown, but what is known of it still
	// counts against the limit below.
	p.over, p.cost = c.Over, c.Cost.USD()
	for _, r := range c.Stopped {
		switch r.Status {
		case runs.Failed:
			p.problem = "a run failed: " + deref(r.Error)
		case runs.Cancelled:
			p.problem, p.interrupted = "a run was cancelled", true
		default:
			p.problem = "a run has spent its budget"
		}
	}
	limit := time.Duration(g.Policy.MaxMinutes) * time.Minute
	switch {
	case p.problem != "":
	case g.Policy.MaxCostUSD != nil && pricing.Dollars(c.Cost.Micros) > *g.Policy.MaxCostUSD:
		p.problem = fmt.Sprintf("the trials cost more than %.2f USD", *g.Policy.MaxCostUSD)
	case !p.over && runs.Elapsed(c.StartedAt) > limit:
		p.problem = fmt.Sprintf("the trials took longer than %d minutes", g.Policy.MaxMinutes)
	case !p.over && runs.Elapsed(g.StartedAt) > limit+maxWait:
		// Whoever fills the queue must not pass a gate by that.
		p.problem, p.interrupted = fmt.Sprintf("the trials found no place for %d hours", int(maxWait.Hours())), true
	}
	return p, nil
}
