package improve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/writer"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// Service starts, executes and reports improve runs.
type Service struct {
	DB        *store.DB
	Jobs      *jobs.Queue
	Sources   *sources.Service // holds candidates while they are tried
	Suites    *suites.Service
	Runs      *runs.Service // scores candidates
	Judge     *judge.Judge  // writes them
	Proposals *proposals.Service
	Log       *slog.Logger
}

// NewRun describes an improve run to start.
type NewRun struct {
	Subject       subject.Ref // a source or an entry
	SuiteID       string
	Target        edit.Target // "" means the description
	MaxIterations int         // 1 to MaxIterations
	Holdout       float64     // MinHoldout to MaxHoldout
	Seed          int64       // of the split and the choices; 0 for a random one
	// What the run may cost; nil for no limit.
	MaxCostUSD *float64
	MaxCalls   *int64
	MaxMinutes *int
	// Also is called in the transaction that starts the run, if it is not nil: what
	// it writes exists if and only if the run does. The nightly policies use it to claim a skill's
	// night in the same transaction.
	Also func(ctx context.Context, tx *store.Tx, r Run) error
}

// The limits and defaults of a run, which the API's schema states, too.
const (
	MaxIterations     = 10
	DefaultIterations = 3
	// The holdout is the share of the cases that are not written from.
	MinHoldout     = 0.1
	MaxHoldout     = 0.9
	DefaultHoldout = 0.4
)

// Check validates the fields of a run. The API's schema has checked a request already; this is for
// callers within the program.
func (n NewRun) Check() error {
	if (n.Subject.SourceID == "") == (n.Subject.EntryID == "") {
		return fault.Invalid("source_id", "give exactly one of source_id and entry_id")
	}
	switch n.Target {
	case "", edit.Description, edit.Body, edit.Both:
	default:
		return fault.Invalid("target", "target must be description, body or both")
	}
	if n.MaxIterations < 1 || n.MaxIterations > MaxIterations {
		return fault.Invalid("max_iterations", "max_iterations must be 1 to %d", MaxIterations)
	}
	// Written so that NaN is refused, too.
	if !(n.Holdout >= MinHoldout && n.Holdout <= MaxHoldout) {
		return fault.Invalid("holdout", "holdout must be %g to %g", MinHoldout, MaxHoldout)
	}
	if n.MaxCostUSD != nil && !(*n.MaxCostUSD > 0 && *n.MaxCostUSD <= 100_000) {
		return fault.Invalid("max_cost_usd", "max_cost_usd must be above 0 and at most 100000")
	}
	if n.MaxCalls != nil && *n.MaxCalls < 1 || n.MaxMinutes != nil && *n.MaxMinutes < 1 {
		return fault.Invalid("max_calls", "max_calls and max_minutes must be at least 1")
	}
	return nil
}

// Start creates an improve run and enqueues its job. It is a Conflict if the suite
// has too few cases, or if a recent run says that nothing is to be gained. The checks are ordered
// by their cost, the cheapest first. None of them asks a model.
func (s *Service) Start(ctx context.Context, caller access.Caller, n NewRun) (r Run, err error) {
	defer fault.Wrap(&err, "improve by suite %s", n.SuiteID)
	if r, err = s.plan(ctx, caller, n); err != nil {
		return r, err
	}
	if err := s.checkValid(ctx, r); err != nil {
		return r, err
	}
	if err := s.checkGain(ctx, r); err != nil {
		return r, err
	}
	if err := s.checkBudget(ctx, r); err != nil {
		return r, err
	}
	return r, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertRun(ctx, tx, r); err != nil {
			return err
		}
		if err := r.audit(ctx, tx, "evals.improve.start"); err != nil {
			return err
		}
		if n.Also != nil {
			if err := n.Also(ctx, tx, r); err != nil {
				return err
			}
		}
		// The unique key is the run's id: a run has one job at a time, whatever enqueues it.
		return s.Jobs.Enqueue(ctx, tx, advance{OrgID: r.OrgID, RunID: r.ID}, jobs.Unique(r.ID), jobs.Attempts(runs.MaxStarts))
	})
}

// plan returns the run that Start would create, whatever it costs. Estimate uses it as well, so
// what is estimated is what would be started.
func (s *Service) plan(ctx context.Context, caller access.Caller, n NewRun) (r Run, err error) {
	if err := n.Check(); err != nil {
		return r, err
	}
	target := cmp.Or(n.Target, edit.Description)
	// The builtin writer only knows words of descriptions.
	if target != edit.Description && s.Judge.Describe().API == judge.Builtin {
		return r, fault.New(fault.Conflict,
			"The builtin judge writes descriptions only; configure a model (--judge-api) to improve the %s", named(target))
	}
	suite, err := s.Suites.Get(ctx, caller.OrgID, n.SuiteID)
	if err != nil {
		return r, err
	}
	skill, err := s.Runs.Subjects().Find(ctx, caller.OrgID, n.Subject)
	if err != nil {
		return r, err
	}
	cases, leftOut, err := casesOf(suite, target)
	if err != nil {
		return r, err
	}
	retired, err := retiredOf(ctx, s.DB, suite.ID)
	if err != nil {
		return r, err
	}
	if err := enough(target, cases, retired); err != nil {
		return r, err
	}
	r = Run{
		ID: store.NewID(), OrgID: caller.OrgID, SuiteID: suite.ID, Status: runs.Queued,
		Subject: subject.Pin(n.Subject, skill), Description: text.Clean(skill.Description),
		MaxIterations: n.MaxIterations, Holdout: n.Holdout, Seed: cmp.Or(n.Seed, subject.NewSeed()), Judge: s.writing(target),
		LeftOut: leftOut, CreatedBy: caller.UserID, CreatedAt: store.Now(), phase: scoring,
		Terms: Terms{
			Target: target, MaxMicros: spend.Micros(n.MaxCostUSD), MaxCalls: n.MaxCalls, MaxMinutes: n.MaxMinutes,
			Trials: trialsPerCase(cases), SuiteVersion: suite.Version,
		},
	}
	for _, c := range cases {
		r.cases = append(r.cases, Case{ID: c.ID, Digest: caseDigest(c), Group: caseGroup(c), Calls: caseCalls(c, r.Judge)})
	}
	// Only sizes are known before the current version is scored; which cases fail doesn't change
	// them.
	split := search.Count(searchCases(r.cases, retired, func(string) bool { return false }), r.Holdout, least(target))
	r.Train, r.HeldOut = split.Train, split.Selection+split.Proof
	r.Terms.Selection, r.Terms.ProofCases = split.Selection, split.Proof
	r.Total = r.wholeTrials()
	if r.skillMD, err = skill.Text(ctx); err != nil {
		return r, err
	}
	r.Distractors, err = s.Runs.Subjects().Distractors(ctx, r.OrgID, skill.Name, r.Seed)
	return r, err
}

// writing identifies the judge that scores and writes. Changes of its version make scores
// incomparable, so the run remembers it; see unchanged.
func (s *Service) writing(target edit.Target) judge.Description {
	about := s.Judge.Improving()
	if target != edit.Description {
		about.PromptVersion = s.Judge.Describe().PromptVersion + "," + writer.PromptVersion
	}
	return about
}

const (
	// saturated is the pass rate above which nothing is to be gained.
	saturated = 0.9
	// recent is how old a run may be that says so.
	recent = 7 * 24 * time.Hour
	// recentRuns is how many of the suite's runs are looked at.
	recentRuns = 20
	// lastRuns is how many of the suite's improve runs an estimate rests on.
	lastRuns = 3
)

const nothingToGain = "%.0f %% of the cases pass with the current version, and above %.0f %% nothing is to be gained: " +
	"add cases that fail, e.g. from sessions with bad grades"

// checkGain is a Conflict if a recent run of the current version says that nothing
// is to be gained. The newest reliable run of exactly this content decides, if it tried at least as
// many cases.
func (s *Service) checkGain(ctx context.Context, r Run) error {
	found, _, err := s.Runs.List(ctx, r.OrgID, r.SuiteID, runs.Filter{Page: store.Page{Limit: recentRuns}})
	if err != nil {
		return err
	}
	for _, run := range found {
		// Another content says nothing about the current one; neither does a part of the suite.
		if run.Subject.ContentHash != r.Subject.ContentHash || run.Status != runs.Succeeded || !run.Summary.Reliable() ||
			run.Total < len(r.cases) || run.CreatedAt.Before(r.CreatedAt.Add(-recent)) {
			continue
		}
		if rate := run.Summary.PassRate; rate != nil && *rate > saturated &&
			run.Summary.Passed+run.Summary.Failed >= len(r.cases) {
			return fault.New(fault.Conflict, nothingToGain, 100**rate, 100*saturated)
		}
		return nil // the newest one decides
	}
	return nil
}

// checkValid is a Conflict if the current version fails its validation: so would every
// candidate, after it was paid for.
func (s *Service) checkValid(ctx context.Context, r Run) (err error) {
	defer fault.Wrap(&err, "validate %s", r.Subject.Name)
	skill, err := s.Runs.Subjects().FindPinned(ctx, r.OrgID, r.Subject)
	if err != nil {
		return err
	}
	pkg, err := skill.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = pkg.Close() }() // it was only read
	report, err := lint.Check(ctx, pkg)
	if err != nil {
		return err
	}
	for _, f := range report.Findings {
		if f.Severity == lint.Error {
			return fault.New(fault.Conflict,
				"The current version of %s fails its validation, and so would every candidate: %s (%s). "+
					"Push a version that passes first", r.Subject.Name, f.Message, f.Code)
		}
	}
	return nil
}

// audit writes an entry of the audit log about the run. The detail has the terms but no texts of
// the skill.
func (r Run) audit(ctx context.Context, tx *store.Tx, action string) error {
	d := audit.Detail{"suite": r.SuiteID, "target": r.Terms.Target, "max_iterations": r.MaxIterations, "holdout": r.Holdout}
	if most := spend.USD(r.Terms.MaxMicros); most != nil {
		d["max_cost_usd"] = *most
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: r.OrgID, Action: action, Target: audit.Target{Kind: "improve_run", ID: r.ID, Name: r.Subject.Name}, Detail: d,
	})
}

// Get returns an improve run of the organisation.
func (s *Service) Get(ctx context.Context, orgID, id string) (r Run, err error) {
	defer fault.Wrap(&err, "improve run %s", id)
	if r, err = runByID(ctx, s.DB, orgID, id); err != nil {
		return r, err
	}
	r.Iterations, err = iterationsOf(ctx, s.DB, id)
	return r, err
}

// Filter selects improve runs for List; zero fields match all.
type Filter struct {
	SuiteID string
	Status  runs.Status
	store.Page
}

// Cancel ends an improve run that is not over; its results so far are kept.
// Cancelling a cancelled run is not an error, cancelling one that is over is a
// Conflict. Its job notices that the run is over within maxPoll and stops the eval runs.
func (s *Service) Cancel(ctx context.Context, orgID, id string) (r Run, err error) {
	defer fault.Wrap(&err, "cancel improve run %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = lockRun(ctx, tx, orgID, id); err != nil {
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

// finish stores the end of a run, whose row is locked. Its job finds it over, and
// stops its eval runs and deletes its candidates.
func (r *Run) finish(ctx context.Context, tx *store.Tx, status runs.Status, problem *string) error {
	at := store.Now()
	r.Status, r.Error, r.FinishedAt = status, problem, &at
	return updateRun(ctx, tx, *r)
}

// An Estimate is what a run would need, if it makes all of its iterations.
type Estimate struct {
	Trials int
	Calls  int64 // of the judge's model; agents have more
	// Tokens of these calls.
	InputTokens, OutputTokens int64
	Micros                    *int64 // of these calls and of agents; nil if a price is not known
	Measured                  bool   // by the suite's last runs, not assumed
}

// Estimate returns what a run would need.
func (s *Service) Estimate(ctx context.Context, caller access.Caller, n NewRun) (e Estimate, err error) {
	defer fault.Wrap(&err, "estimate an improve run by suite %s", n.SuiteID)
	r, err := s.plan(ctx, caller, n)
	if err != nil {
		return e, err
	}
	return s.estimate(ctx, r)
}

// What a call is assumed to have beside the SKILL.md, where no run has measured it.
const (
	assumedInput  = 1500 // tokens
	assumedOutput = 600
	assumedChoice = 60 // which skill a query would load
	runesPerToken = 4
)

// estimate prefers what similar runs have cost: improve runs first, then eval runs of the suite,
// and assumptions last.
func (s *Service) estimate(ctx context.Context, r Run) (e Estimate, err error) {
	e.Trials = r.wholeTrials()
	e.Calls = int64(float64(r.wholeTrials())*r.callsPerTrial()+0.999) + int64(r.MaxIterations)*r.writerCalls()
	if known, err := s.repeated(ctx, r, &e); err != nil || known {
		return e, err
	}
	past, _, err := s.Runs.List(ctx, r.OrgID, r.SuiteID, runs.Filter{Page: store.Page{Limit: recentRuns}})
	if err != nil {
		return e, err
	}
	var sum spend.Cost
	trials := 0
	for _, run := range past {
		if run.Cost != nil && run.Cost.Requests > 0 {
			sum.Add(*run.Cost)
			trials += run.Done
		}
	}
	if sum.Requests > 0 && trials > 0 {
		calls := e.Calls
		e.measure(sum, float64(e.Trials)/float64(trials))
		// Past runs may have used fewer calls than this suite needs today.
		e.Calls = max(e.Calls, calls)
		return e, nil
	}
	e.InputTokens = e.Calls * int64(assumedInput+len([]rune(r.skillMD))/runesPerToken)
	e.OutputTokens = e.Calls * assumedOutput
	if r.Terms.Target == edit.Description { // a query has a catalogue beside it, and no SKILL.md
		e.InputTokens, e.OutputTokens = e.Calls*assumedInput, e.Calls*assumedChoice
	}
	prices, err := s.prices(ctx, r.OrgID)
	if err != nil {
		return e, err
	}
	cost := spend.OfRecord(judge.Record{Model: r.Judge.Model, Raw: "assumed", Usage: judge.Usage{
		Attempts: int(e.Calls), InputTokens: e.InputTokens, OutputTokens: e.OutputTokens,
	}}, prices, store.Now())
	// Without a price the estimate is unknown; 0 would look free.
	if e.Calls == 0 || cost.Unpriced == 0 {
		e.Micros = &cost.Micros
	}
	return e, nil
}

// repeated estimates a run by what the last ones of the suite have cost, of as many as
// were not cut short: how many of the trials that they could make, they did make, and what
// these took. It reports whether there is one. Runs that a limit ended early are left out: they'd
// make the estimate too low.
func (s *Service) repeated(ctx context.Context, r Run, e *Estimate) (bool, error) {
	past, _, err := s.List(ctx, r.OrgID, Filter{SuiteID: r.SuiteID, Page: store.Page{Limit: recentRuns}})
	if err != nil {
		return false, err
	}
	var sum spend.Cost
	planned, n := 0, 0
	for _, of := range past {
		ended := of.Status == runs.Succeeded || of.Status == NoWinner && of.Proof != nil
		whole := of.Terms.StoppedBy == "" || of.Terms.StoppedBy == byIterations
		if ended && whole && of.Terms.Target == r.Terms.Target && of.Judge == r.Judge && of.Cost.Requests > 0 && n < lastRuns {
			sum.Add(of.Cost)
			planned += of.wholeTrials()
			n++
		}
	}
	if n > 0 {
		e.measure(sum, float64(e.Trials)/float64(planned))
	}
	return n > 0, nil
}

// measure sets the figures to a share of what something has cost. Costs grow in proportion to the
// trials.
func (e *Estimate) measure(of spend.Cost, share float64) {
	e.Measured = true
	e.Calls = int64(math.Ceil(float64(of.Requests) * share))
	e.InputTokens = int64(float64(of.Tokens.Input+of.Tokens.CacheRead+of.Tokens.CacheWrite) * share)
	e.OutputTokens = int64(float64(of.Tokens.Output) * share)
	e.Micros = nil
	if of.Unpriced == 0 {
		micros := int64(float64(of.Micros) * share)
		e.Micros = &micros
	}
}

// checkBudget refuses a budget that is too small to begin with, or that cannot be
// kept. Planning the first eval run finds out whether its budget can be enforced at all, e.g.
// whether the model has a price.
func (s *Service) checkBudget(ctx context.Context, r Run) error {
	least := r.callsOf(r.allCases(), r.Terms.Trials) + r.roundCalls() + r.finalCalls()
	if most := r.Terms.MaxCalls; most != nil && *most < least {
		return fault.Invalid("max_calls", "max_calls must be at least %d for one iteration and the proof with this suite", least)
	}
	_, err := s.Runs.Plan(ctx, access.Caller{OrgID: r.OrgID, UserID: r.CreatedBy}, r.SuiteID, runs.NewRun{
		Subject: r.subject(), Trials: r.Terms.Trials, Baseline: runs.NoBaseline, CaseIDs: r.allCases(),
		MaxMicros: r.Terms.MaxMicros,
	})
	if err != nil {
		return fmt.Errorf("plan of the first run: %w", err)
	}
	return nil
}
