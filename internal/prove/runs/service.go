package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/sse"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// Service starts, executes and reports runs.
type Service struct {
	DB       *store.DB
	Jobs     *jobs.Queue
	Suites   *suites.Service
	Sources  *sources.Service
	Registry *registry.Service
	Judge    *judge.Judge
	Sandbox  sandbox.Sandbox
	// Agents may work on cases; nil if there are none.
	Agents   *agents.Service
	Packages *taskpkg.Runner
	// Recordings keeps what agents did; nil to keep nothing.
	Recordings *recording.Store
	// Prices of models; nil means those that the program comes with.
	Prices spend.Prices
	// Catalogs lists skills as agents do; nil if no run may be asked on a catalogue.
	Catalogs catalogue.Lister
	OnEnded  OnEnded // may be nil
	// Concurrency is how many trials of a run wait for the judge at once; 0
	// means 8.
	Concurrency int
	// Scratch is the folder for what sandboxed programs read and write; empty
	// means the system's temporary folder.
	Scratch string
	// Closing, if not nil, ends the streams of events when it is closed.
	Closing <-chan struct{}
	Log     *slog.Logger

	slice   time.Duration // defaultSlice when 0
	folders sync.Map      // of executions, which Sweep must spare
}

// Subjects finds the skills that runs are about.
func (s *Service) Subjects() subject.Finder {
	return subject.Finder{Sources: s.Sources, Registry: s.Registry}
}

// OnEnded is a hook of results about a skill. Complete ones are signed, and lead to
// suggestions; schedules record all.
type OnEnded interface {
	// RunEnded is called in the transaction that ends the run, which may also have failed or
	// been cancelled.
	RunEnded(ctx context.Context, tx *store.Tx, r Run) error
}

// NewRun describes a run to start.
type NewRun struct {
	Subject  subject.Ref
	Trials   int // of each case and arm; 0 means one
	Baseline Baseline
	Seed     int64    // 0 means a new one
	CaseIDs  []string // the cases to try; nil means all
	// Agent works on the cases that have an instruction; nil for none.
	Agent *suites.Agent
	// MaxMicros is the most that the run may cost, in millionths of a dollar; nil
	// for no limit.
	MaxMicros    *int64
	ImproveRunID *string // that it is made for; nil for none
	// Catalog is the listing that trigger queries choose from; nil for chosen distractors.
	// Other cases are not tried on it.
	Catalog *catalogue.Choice
	// Compared says that the run is compared with one of NoSkillOnly: graders that only a
	// trial with the skill can pass are not scored.
	Compared bool
}

func (n NewRun) validate() error {
	given := 0
	for _, id := range []string{n.Subject.SourceID, n.Subject.SnapshotID, n.Subject.EntryID} {
		if id != "" {
			given++
		}
	}
	// Without a skill, the subject only names what must not be there.
	if given != 1 && (given > 0 || n.Baseline != NoSkillOnly) {
		return fault.Invalid("subject", "subject needs exactly one of source_id, snapshot_id and entry_id")
	}
	if n.Subject.Version != "" && n.Subject.EntryID == "" {
		return fault.Invalid("subject.version", "subject.version is of an entry: give its entry_id")
	}
	if n.Trials > MaxTrials {
		return fault.Invalid("trials", "trials must be at most %d", MaxTrials)
	}
	if n.Seed < 0 || n.Seed >= subject.MaxSeed {
		return fault.Invalid("seed", "seed must be at least 0 and below 2^53")
	}
	if n.Catalog == nil {
		return nil
	}
	return n.Catalog.Check(len(n.Baseline.Arms()) > 1, n.Agent != nil)
}

// Start creates a run of a suite and enqueues its job. A suite that cannot be
// run, or a baseline that does not exist, is a Conflict.
func (s *Service) Start(ctx context.Context, caller access.Caller, suiteID string, n NewRun) (r Run, err error) {
	if r, err = s.Plan(ctx, caller, suiteID, n); err != nil {
		return r, err
	}
	return r, s.DB.InTx(ctx, func(tx *store.Tx) error { return s.Add(ctx, tx, r) })
}

// Plan returns the run that Start would create, without storing it, for callers that do
// so in a transaction of their own (see Add).
func (s *Service) Plan(ctx context.Context, caller access.Caller, suiteID string, n NewRun) (r Run, err error) {
	defer fault.Wrap(&err, "run suite %s", suiteID)
	if err := n.validate(); err != nil {
		return r, err
	}
	suite, err := s.Suites.Get(ctx, caller.OrgID, suiteID)
	if err != nil {
		return r, err
	}
	if n.Catalog != nil {
		if n.CaseIDs, err = catalogue.Cases(suite.Cases, n.CaseIDs); err != nil {
			return r, err
		}
	}
	issues := suite.Issues
	if n.CaseIDs != nil { // what is wrong with the others does not matter
		if suite.Cases, suite.Document, err = suites.Choose(suite.Cases, n.CaseIDs); err != nil {
			return r, err
		}
		if !slices.ContainsFunc(suite.Cases, func(c suites.Case) bool { return !c.Runnable() }) {
			issues = suite.KindIssues()
		}
	}
	if len(issues) > 0 {
		return r, fault.New(fault.Conflict, "Eval suite cannot be run: %s", suites.IssueText(issues))
	}
	r = Run{
		ID: store.NewID(), OrgID: caller.OrgID, SuiteID: suite.ID, SourceID: suite.SourceID, Status: Queued,
		Trials: max(1, n.Trials), Baseline: n.Baseline, Seed: cmp.Or(n.Seed, subject.NewSeed()),
		ImproveRunID: n.ImproveRunID, CreatedBy: caller.UserID, CreatedAt: store.Now(),
		verifier: suite.VerifierKind, noSkill: suite.SupportsNoSkill, caseCount: len(suite.Cases), document: suite.Document,
	}
	r.Total = len(suite.Cases) * r.Trials * len(r.Baseline.Arms())
	r.Terms.SuiteVersion = suite.Version
	if err := s.pinSkills(ctx, &r, n.Subject); err != nil {
		return r, err
	}
	if err := r.checkBaseline(suite.Cases); err != nil {
		return r, err
	}
	if err := s.setTerms(ctx, &r, n, suite.Cases); err != nil {
		return r, err
	}
	return r, s.pinJudge(ctx, &r, n.Catalog, suite.Cases)
}

// Add stores a planned run, its audit entry and its job. The suite can't be deleted
// until the transaction ends.
func (s *Service) Add(ctx context.Context, tx *store.Tx, r Run) error {
	if err := s.insert(ctx, tx, r); err != nil {
		return err
	}
	return s.Jobs.Enqueue(ctx, tx, execute{OrgID: r.OrgID, RunID: r.ID}, jobs.Unique(r.ID), jobs.Attempts(MaxStarts))
}

// insert is Add without the job.
func (s *Service) insert(ctx context.Context, tx *store.Tx, r Run) error {
	if err := s.Suites.Keep(ctx, tx, r.OrgID, r.SuiteID); err != nil {
		return err
	}
	if err := insertRun(ctx, tx, r); err != nil {
		return err
	}
	return r.audit(ctx, tx, "evals.run.start")
}

// Conditions returns a digest of everything but the skill that the outcome of a planned
// run depends on. Runs of equal conditions can be compared.
func (r Run) Conditions() (string, error) {
	raw, err := json.Marshal(struct {
		Cases       json.RawMessage
		Verifier    suites.VerifierKind
		Judge       *judge.Description
		Distractors []judge.Skill
		Agent       *suites.Agent
		Trials      int
		Seed        int64
		Requires    []subject.Required `json:",omitempty"` // so that skills without requirements keep their digests
		Catalog     *catalogue.Choice  `json:",omitempty"`
		Compared    bool               `json:",omitempty"`
	}{
		r.document, r.verifier, r.Judge, r.Distractors, r.Terms.Agent, r.Trials, r.Seed, r.Subject.Requires, r.Catalog,
		r.Terms.Compared,
	})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

// Question returns a digest of what a planned run asks and who judges it, regardless of
// the skill, the seed, the number of trials and the distractors. Trials of runs with
// equal questions can be pooled.
func (r Run) Question() (string, error) {
	raw, err := json.Marshal(struct {
		Cases    json.RawMessage
		Verifier suites.VerifierKind
		Judge    *judge.Description
		Agent    *suites.Agent
		Catalog  *catalogue.Choice `json:",omitempty"`
	}{r.document, r.verifier, r.Judge, r.Terms.Agent, r.Catalog})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

// audit writes an entry of the audit log about the run.
func (r Run) audit(ctx context.Context, tx *store.Tx, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: r.OrgID, Action: action, Target: audit.Target{Kind: "run", ID: r.ID, Name: r.Subject.Name},
		Detail: r.auditDetail(),
	})
}

func (r Run) auditDetail() audit.Detail {
	d := audit.Detail{"suite": r.SuiteID, "trials": r.Trials, "baseline": r.Baseline}
	if a := r.Terms.Agent; a != nil {
		d["agent"] = strings.TrimSpace(a.Name + " " + a.Model)
	}
	if r.Catalog != nil {
		d["catalog"] = r.Catalog.Catalog
	}
	if most := spend.USD(r.Terms.MaxMicros); most != nil {
		d["max_cost_usd"] = *most
	}
	return d
}

// pinSkills looks up the skill and, for the baseline, the version before it. The
// run pins both by content hash: a version that is published while the run waits
// must not be tested in its name.
func (s *Service) pinSkills(ctx context.Context, r *Run, ref subject.Ref) error {
	if ref == (subject.Ref{}) {
		return nil
	}
	skill, err := s.Subjects().Find(ctx, r.OrgID, ref)
	if err != nil {
		return err
	}
	r.Subject = subject.Pin(ref, skill)
	if skill.SourceID != "" {
		r.SourceID = &skill.SourceID
	}
	if r.Baseline != PreviousBaseline {
		return nil
	}
	previous, err := s.Subjects().Previous(ctx, r.OrgID, skill.Pin)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Conflict, "There is no version before this one to compare with")
	}
	if err != nil {
		return err
	}
	pinned := subject.Pin(previous.Pin, previous)
	r.Previous = &pinned
	return nil
}

// pinJudge stores which judge decides, and what the skill competes with: verdicts
// of different judges or catalogues cannot be compared.
func (s *Service) pinJudge(ctx context.Context, r *Run, c *catalogue.Choice, cases []suites.Case) (err error) {
	// judged: a judge decides a case; routed: a model or an agent chooses among skills.
	judged, routed := false, false
	for _, c := range cases {
		judged = judged || r.isJudged(c)
		routed = routed || c.Kind == suites.TriggerQuery || r.agentOf(c) != nil
	}
	if judged {
		about := s.Judge.Describe()
		r.Judge = &about
	}
	if c != nil {
		conditions, err := r.Conditions()
		if err != nil {
			return err
		}
		r.Catalog, r.listed, err = c.Pin(ctx, s.Catalogs, s.Subjects(), r.OrgID, r.Subject, conditions)
		return err
	}
	if routed {
		r.Distractors, err = s.Subjects().Beside(ctx, r.OrgID, &r.Subject, r.Previous, r.Seed)
	}
	return err
}

// Get returns a run of the organisation without its cases.
func (s *Service) Get(ctx context.Context, orgID, id string) (Run, error) {
	return runByID(ctx, s.DB, orgID, id, "")
}

// A Filter chooses runs of a suite.
type Filter struct {
	store.Page
	Status Status // "" for all
}

// List returns a page of a suite's runs, newest first, and their number.
func (s *Service) List(ctx context.Context, orgID, suiteID string, f Filter) ([]Run, int, error) {
	if err := s.Suites.Exists(ctx, orgID, suiteID); err != nil {
		return nil, 0, err
	}
	return listedRuns.Page(ctx, s.DB, f.Page, orgID, suiteID, f.Status)
}

// Newest returns the newest run of each of these suites of the organisation, by
// suite id; suites that were never run are missing. It is one query, however
// many suites there are.
func (s *Service) Newest(ctx context.Context, orgID string, of []suites.Suite) (map[string]Run, error) {
	ids := make([]string, len(of))
	for i, suite := range of {
		ids[i] = suite.ID
	}
	runs, err := newestRuns(ctx, s.DB, orgID, ids)
	newest := map[string]Run{}
	for _, r := range runs {
		newest[r.SuiteID] = r
	}
	return newest, err
}

// A Report is a run with the results of its cases.
type Report struct {
	Run
	Cases   []suites.Case
	Results []CaseResult // one for each case
}

// Report returns a run of the organisation with all of its cases, or with the
// one of caseID.
func (s *Service) Report(ctx context.Context, orgID, id, caseID string) (_ Report, err error) {
	defer fault.Wrap(&err, "run %s", id)
	r, err := runWithCases(ctx, s.DB, orgID, id)
	if err != nil {
		return Report{}, err
	}
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
	trials, err := trialsOfRun(ctx, s.DB, r.ID, only)
	if err != nil {
		return Report{}, err
	}
	for i, t := range trials {
		if given := cases[t.Case].Subject.Output; given != nil {
			trials[i].OutputTail = tail(*given, MaxTail) // not stored with the trial: the case has it
		}
	}
	results := resultsOf(r.Baseline, cases, trials)
	if r.Status.Over() {
		skipUndecided(results)
		// Runs from before lifts were stored have theirs computed here.
		if only == nil && r.Summary.Lift == nil {
			r.Summary.Lift = liftOf(results)
		}
	}
	if only != nil {
		cases, results = cases[*only:*only+1], results[*only:*only+1]
	}
	return Report{Run: r, Cases: cases, Results: results}, nil
}

// Verdicts is Report without evidence and outputs, for comparisons of runs, which don't
// need them.
func (s *Service) Verdicts(ctx context.Context, orgID, id string) (_ Report, err error) {
	defer fault.Wrap(&err, "run %s", id)
	r, err := runWithCases(ctx, s.DB, orgID, id)
	if err != nil {
		return Report{}, err
	}
	cases, err := r.cases()
	if err != nil {
		return Report{}, err
	}
	trials, err := verdictsOfRun(ctx, s.DB, r.ID)
	return Report{Run: r, Cases: cases, Results: resultsOf(r.Baseline, cases, trials)}, err
}

// Cancel ends a run that is not over; its results so far are kept. Cancelling a
// cancelled run is not an error, cancelling one that is over is a Conflict.
func (s *Service) Cancel(ctx context.Context, orgID, id string) (r Run, err error) {
	defer fault.Wrap(&err, "cancel run %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = runByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		if r.Status == Cancelled {
			return nil
		}
		if r.Status.Over() {
			return fault.New(fault.Conflict, "Eval run is already over: it has %s", r.Status)
		}
		if r, err = s.finish(ctx, tx, r, Cancelled, ""); err != nil {
			return err
		}
		return r.audit(ctx, tx, "evals.run.cancel")
	})
	return r, err
}

// finish ends a run, whose row is locked, with the results so far. Cases without a
// verdict count as skipped. Signature and suggestions are written in the same
// transaction.
func (s *Service) finish(ctx context.Context, tx *store.Tx, r Run, status Status, problem string) (Run, error) {
	full, err := runWithCases(ctx, tx, r.OrgID, r.ID)
	if err != nil {
		return r, err
	}
	cases, err := full.cases()
	if err != nil {
		return r, err
	}
	trials, err := measuredTrials(ctx, tx, r.ID)
	if err != nil {
		return r, err
	}
	results := resultsOf(r.Baseline, cases, trials[r.ID])
	skipUndecided(results)
	at := store.Now()
	r.Status, r.Summary, r.FinishedAt = status, summarize(results), cmp.Or(r.FinishedAt, &at)
	if problem != "" {
		r.Error = &problem
	}
	verdicts := make([]string, len(results))
	for i, result := range results {
		verdicts[i] = string(*result.Verdict)
	}
	if err := insertCases(ctx, tx, r.ID, cases, verdicts); err != nil {
		return r, err
	}
	if err := markRunFinished(ctx, tx, r); err != nil {
		return r, err
	}
	if err := sse.Insert(ctx, tx, r.ID, []sse.Event{statusEvent(r)}); err != nil {
		return r, err
	}
	// Others are not about the skill itself.
	if s.OnEnded == nil || r.ImproveRunID != nil || r.Catalog != nil || r.Baseline == NoSkillOnly {
		return r, nil
	}
	return r, s.OnEnded.RunEnded(ctx, tx, r)
}
