package evals

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Suggester is told of runs that said something about a source.
type Suggester interface {
	Suggest(ctx context.Context, tx *store.Tx, orgID, sourceID string) error
}

// NewRun is what a caller decides about a run.
type NewRun struct {
	Subject  SkillRef
	Trials   int // 0: one
	Baseline Baseline
}

func (n NewRun) check() error {
	given := 0
	for _, id := range []string{n.Subject.SourceID, n.Subject.SnapshotID, n.Subject.EntryID} {
		if id != "" {
			given++
		}
	}
	if given != 1 {
		return fault.Invalid("subject", "subject needs exactly one of source_id, snapshot_id and entry_id")
	}
	if n.Subject.Version != "" && n.Subject.EntryID == "" {
		return fault.Invalid("subject.version", "subject.version is of an entry: give its entry_id")
	}
	if n.Trials > maxTrials {
		return fault.Invalid("trials", "trials must be at most %d", maxTrials)
	}
	return nil
}

// maxSeed keeps seeds exact in every JSON reader.
const maxSeed = 1 << 53

// StartRun makes a run of a suite, which begins when a worker is free. A suite
// that cannot be run, or a baseline that is not there, is a Conflict.
func (s *Service) StartRun(ctx context.Context, caller access.Caller, suiteID string, n NewRun) (r Run, err error) {
	defer fault.Wrap(&err, "run suite %s", suiteID)
	if err := n.check(); err != nil {
		return r, err
	}
	suite, err := s.Suite(ctx, caller.OrgID, suiteID)
	if err != nil {
		return r, err
	}
	if !suite.Runnable() {
		return r, fault.New(fault.Conflict, "Eval suite cannot be run: %s", reasons(suite.Issues))
	}
	r = Run{
		ID: store.NewID(), OrgID: caller.OrgID, SuiteID: suite.ID, SourceID: suite.SourceID, Status: Queued,
		Trials: max(1, n.Trials), Baseline: n.Baseline, Seed: rand.Int64N(maxSeed), //nolint:gosec // no secret in it
		CreatedBy: caller.UserID, CreatedAt: store.Now(),
		verifier: suite.VerifierKind, noSkill: suite.SupportsNoSkill, caseCount: len(suite.Cases), document: suite.Document,
	}
	r.Total = len(suite.Cases) * r.Trials * len(r.Baseline.variants())
	if err := s.findSkills(ctx, &r, n.Subject); err != nil {
		return r, err
	}
	if err := s.findJudge(ctx, &r, suite.Cases); err != nil {
		return r, err
	}
	return r, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertRun(ctx, tx, r); err != nil {
			return err
		}
		if err := r.record(ctx, tx, "evals.run.start"); err != nil {
			return err
		}
		return s.Jobs.Enqueue(ctx, tx, execute{OrgID: r.OrgID, RunID: r.ID}, jobs.Unique(r.ID), jobs.Attempts(maxStarts))
	})
}

// record writes down what was done to a run.
func (r Run) record(ctx context.Context, tx *store.Tx, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: r.OrgID, Action: action, Target: audit.Target{Kind: "run", ID: r.ID, Name: r.Subject.Name},
		Detail: audit.Detail{"suite": r.SuiteID, "trials": r.Trials, "baseline": r.Baseline},
	})
}

// maxReasons is how many reasons a message holds; the suite shows them all.
const maxReasons = 5

func reasons(issues []fault.Issue) string {
	var all []string
	for i, issue := range issues {
		if i == maxReasons {
			all = append(all, "and more")
			break
		}
		all = append(all, strings.Join(issue.Path, ".")+": "+issue.Message)
	}
	return strings.Join(all, "; ")
}

// findSkills pins the skill and, for the baseline, the one before it.
func (s *Service) findSkills(ctx context.Context, r *Run, ref SkillRef) error {
	skill, err := s.Subjects.Subject(ctx, r.OrgID, ref)
	if err != nil {
		return err
	}
	r.Subject = newTested(ref, skill)
	if skill.SourceID != "" {
		r.SourceID = &skill.SourceID
	}
	if r.Baseline != PreviousBaseline {
		return nil
	}
	previous, err := s.Subjects.Previous(ctx, r.OrgID, skill.Pin)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Conflict, "There is no version before this one to compare with")
	}
	if err != nil {
		return err
	}
	tested := newTested(previous.Pin, previous)
	r.Previous = &tested
	return nil
}

func newTested(ref SkillRef, skill Skill) Tested {
	return Tested{SkillRef: ref, Name: skill.Name, ContentHash: skill.ContentHash, Label: skill.Label, Pin: skill.Pin}
}

// findJudge notes who will judge, and what the skill competes with.
func (s *Service) findJudge(ctx context.Context, r *Run, cases []Case) error {
	judged, routed := false, false
	for _, c := range cases {
		judged = judged || c.judged()
		routed = routed || c.Kind == TriggerQuery
	}
	if judged {
		about := s.Judge.Describe()
		r.Judge = &about
	}
	if !routed {
		return nil
	}
	others, err := s.Subjects.Distractors(ctx, r.OrgID, r.Subject.Name)
	if err != nil {
		return err
	}
	r.Distractors = judge.Distractors(others, r.Subject.Name, r.Seed)
	return nil
}

// judged reports whether a model takes part in the case.
func (c Case) judged() bool {
	return c.Kind == TriggerQuery || c.Kind == LLMRubric || c.Subject.Prompt != nil
}

// query is what a person would ask, of the cases that have it.
func (c Case) query() *string {
	text := c.Query
	if c.Kind != TriggerQuery {
		if c.Subject.Prompt == nil {
			return nil
		}
		text = *c.Subject.Prompt
	}
	text = plainText(text)
	return &text
}

// plainText is a text that every database keeps.
func plainText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// cases reads the run's own cases.
func (r Run) cases() ([]Case, error) {
	var all []Fields
	if err := json.Unmarshal(r.document, &all); err != nil {
		return nil, err
	}
	cases := make([]Case, len(all))
	for i, f := range all {
		cases[i] = readCase(f, r.verifier)
	}
	return cases, nil
}

// Run returns a run of the organisation without its cases.
func (s *Service) Run(ctx context.Context, orgID, id string) (Run, error) {
	return runHead(ctx, s.DB, orgID, id, "")
}

// Runs lists a page of a suite's runs, newest first, and their number.
func (s *Service) Runs(ctx context.Context, orgID, suiteID string, limit, offset int) ([]Run, int, error) {
	if err := suiteOfOrg(ctx, s.DB, orgID, suiteID); err != nil {
		return nil, 0, err
	}
	return runsOfSuite(ctx, s.DB, suiteID, limit, offset)
}

// NewestRuns returns the newest run of each of these suites of the
// organisation, by the suite's id; those that were never run are missing. It is
// one query, however many suites there are.
func (s *Service) NewestRuns(ctx context.Context, orgID string, suites []Suite) (map[string]Run, error) {
	ids := make([]string, len(suites))
	for i, suite := range suites {
		ids[i] = suite.ID
	}
	runs, err := newestRuns(ctx, s.DB, orgID, ids)
	newest := map[string]Run{}
	for _, r := range runs {
		newest[r.SuiteID] = r
	}
	return newest, err
}

// A Report is a run with what came of its cases.
type Report struct {
	Run
	Cases   []Case
	Results []CaseResult // one for each case
}

// Report returns a run of the organisation with its cases: with all of them,
// or with the one of an id.
func (s *Service) Report(ctx context.Context, orgID, id, caseID string) (_ Report, err error) {
	defer fault.Wrap(&err, "run %s", id)
	r, err := runWithCases(ctx, s.DB, orgID, id)
	if err != nil {
		return Report{}, err
	}
	return s.report(ctx, s.DB, r, caseID)
}

func (s *Service) report(ctx context.Context, q store.Querier, r Run, caseID string) (Report, error) {
	cases, err := r.cases()
	if err != nil {
		return Report{}, err
	}
	var only *int
	for i, c := range cases {
		if c.ID == caseID && caseID != "" {
			only = &i
			break
		}
	}
	if only == nil && caseID != "" {
		return Report{}, fault.New(fault.NotFound, "Case not found")
	}
	trials, err := trialsOfRun(ctx, q, r.ID, only)
	if err != nil {
		return Report{}, err
	}
	for i, t := range trials {
		if given := cases[t.Case].Subject.Output; given != nil {
			trials[i].OutputTail = tail(*given, maxTail) // it is not kept twice
		}
	}
	all := results(cases, trials)
	if r.Status.over() {
		end(all)
	}
	if only != nil {
		cases, all = cases[*only:*only+1], all[*only:*only+1]
	}
	return Report{Run: r, Cases: cases, Results: all}, nil
}

// Cancel ends a run that is not over; what it has found is kept. Cancelling a
// cancelled run is not an error, cancelling one that came to its end is a
// Conflict.
func (s *Service) Cancel(ctx context.Context, orgID, id string) (r Run, err error) {
	defer fault.Wrap(&err, "cancel run %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = runHead(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		if r.Status == Cancelled {
			return nil
		}
		if r.Status.over() {
			return fault.New(fault.Conflict, "Eval run is already over: it has %s", r.Status)
		}
		if r, err = s.finish(ctx, tx, r, Cancelled, ""); err != nil {
			return err
		}
		return r.record(ctx, tx, "evals.run.cancel")
	})
	return r, err
}

// finish ends a run, whose row is locked, with what it has found so far.
func (s *Service) finish(ctx context.Context, tx *store.Tx, r Run, status Status, problem string) (Run, error) {
	full, err := runWithCases(ctx, tx, r.OrgID, r.ID)
	if err != nil {
		return r, err
	}
	cases, err := full.cases()
	if err != nil {
		return r, err
	}
	trials, err := verdictsOfRun(ctx, tx, r.ID)
	if err != nil {
		return r, err
	}
	all := results(cases, trials)
	end(all)
	at := store.Now()
	r.Status, r.Summary, r.FinishedAt = status, summarize(all), &at
	if problem != "" {
		r.Error = &problem
	}
	if err := insertRunCases(ctx, tx, r.ID, cases, all); err != nil {
		return r, err
	}
	if err := endRun(ctx, tx, r); err != nil {
		return r, err
	}
	if err := insertEvents(ctx, tx, r.ID, []event{statusEvent(r)}); err != nil {
		return r, err
	}
	if s.Suggester != nil && r.SourceID != nil && status == Succeeded {
		return r, s.Suggester.Suggest(ctx, tx, r.OrgID, *r.SourceID)
	}
	return r, nil
}

// A Failure is a case with a query that failed in the newest run of its suite.
type Failure struct {
	SuiteID, RunID, CaseID string
	Query                  string
	// ShouldTrigger is false for a query that must not trigger the skill.
	ShouldTrigger bool
	Invocation    string    // how the skill is called, or ""
	Failed, Runs  int       // of the last runs with a verdict on the case
	LastAt        time.Time // when the newest run ended
	// Regression says that the case passed in the run before.
	Regression bool
}

// lastRuns is how many runs of a suite Failures looks back.
const lastRuns = 20

// Failures returns the cases with a query that failed in the newest run of
// each suite that came to its end and was about the source.
func (s *Service) Failures(ctx context.Context, q store.Querier, orgID, sourceID string) ([]Failure, error) {
	return failuresOfSource(ctx, q, orgID, sourceID)
}
