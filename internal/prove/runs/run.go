// Package runs tries a skill on the cases of a suite and reports a verdict that
// a team can defend: judged by a model, decided by deterministic checks, or by
// the verifier of a task package. Trials are stored as they are made, so a run
// survives the crash of its worker. It owns the tables eval_runs,
// eval_run_trials, eval_run_cases, eval_run_counts, eval_run_costs,
// eval_run_terms, eval_run_scores, eval_agent_costs, eval_trial_recordings, eval_run_imports,
// eval_run_purposes, eval_run_catalogs and eval_run_events.
package runs

import (
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/imported"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// A Run is one execution of a suite's cases against a skill. It has its own
// copy of the cases: later changes of the suite do not affect it.
type Run struct {
	ID       string
	OrgID    string
	SuiteID  string
	SourceID *string // the cloud source that the result is about
	Status   Status
	Subject  subject.Pinned
	Previous *subject.Pinned // the skill of the baseline PreviousBaseline
	// Distractors are the skills that compete with the subject in trigger
	// queries, the same for all trials.
	Distractors []judge.Skill
	Trials      int // of each case and arm
	Baseline    Baseline
	Seed        int64
	Judge       *judge.Description // nil if no case needs one
	Done        int                // trials, of both arms
	Total       int
	Summary     Summary
	Cost        *spend.Cost // so far; nil for runs from before costs were counted
	Terms       spend.Terms
	// Imported says where the run was made, if not here; nil otherwise.
	Imported *imported.Origin
	// ImproveRunID is the improve run that the run was made for. Such a run is in no
	// list and no rate: its subject may be a mere candidate, its cases a selection. nil
	// for all others.
	ImproveRunID *string
	// Catalog is the listing that trigger queries choose from, in place of Distractors.
	// Such a run measures the listing rather than the skill. nil for all others.
	Catalog *catalogue.Choice

	Error     *string // why the run failed; safe to show
	CreatedBy string
	CreatedAt time.Time

	StartedAt, FinishedAt *time.Time

	verifier  suites.VerifierKind
	noSkill   bool // whether the suite supports the baseline NoSkill
	caseCount int
	document  json.RawMessage // the cases; nil where only the columns of the run were read
	listed    []judge.Skill   // of Catalog, of a planned run
}

// cases parses the run's copy of the cases.
func (r Run) cases() ([]suites.Case, error) { return suites.ParseCases(r.document, r.verifier) }

// A Status is the state of a run.
type Status string

// The statuses. Succeeded means that all trials were made, whatever their
// verdicts.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
	// BudgetSpent means that the run reached its spending limit: trials are missing, or
	// have no verdict.
	BudgetSpent Status = "budget_spent"
)

// Over reports whether the status is final.
func (s Status) Over() bool { return s != Queued && s != Running }

// A Baseline is what a run compares the skill with.
type Baseline string

// The baselines.
const (
	NoBaseline       Baseline = "none"
	NoSkill          Baseline = "no_skill"
	PreviousBaseline Baseline = "previous"
	// NoSkillOnly is the arm of a comparison that has no skill: a run of its own, in no list and
	// no rate, whose results are those without the skill.
	NoSkillOnly Baseline = "no_skill_only"
)

// Arms returns the arms in which each case is tried: the one with the skill, then the
// baseline's, if there is one.
func (b Baseline) Arms() []Arm {
	switch b {
	case NoSkill:
		return []Arm{WithSkill, WithoutSkill}
	case PreviousBaseline:
		return []Arm{WithSkill, WithPrevious}
	case NoSkillOnly:
		return []Arm{WithoutSkill}
	case NoBaseline:
	}
	return []Arm{WithSkill}
}

// An Arm is one side of a comparison: the skill that a trial is made with. The
// API and the tables call it variant.
type Arm string

// The arms.
const (
	WithSkill    Arm = "skill"
	WithoutSkill Arm = "no_skill"
	WithPrevious Arm = "previous"
)

// A Verdict is the result of a trial or a case.
type Verdict string

// The verdicts. An error says nothing about the skill: it never counts as a
// fail.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Error   Verdict = "error"   // no verdict: something else went wrong
	Skipped Verdict = "skipped" // the arm does not apply, or the run ended before
)

// Decided reports whether the verdict counts in a pass rate.
func (v Verdict) Decided() bool { return v == Pass || v == Fail }

// A TrialKey identifies a trial in its run. It is the primary key of trials, which
// makes storing them idempotent: a trial that two workers made is stored once.
type TrialKey struct {
	Case int // index into the run's cases
	Arm  Arm
	N    int // from 1
}

// A Trial is one attempt at one case.
type Trial struct {
	TrialKey
	Verdict    Verdict
	Score      *float64 // 0 to 1; nil without a verdict
	Evidence   Evidence
	OutputTail string
	Duration   time.Duration
	Error      *string // why there is no verdict, e.g. "timeout: the judge took too long"

	agentCost spend.Cost           // which Evidence.Cost includes
	did       *recording.Recording // by the agent; nil without one
	recorded  recording.Ref        // what is stored of did
}

// Evidence says why a trial has its verdict.
type Evidence struct {
	Summary string `json:"summary"`
	// Criteria are the verdicts on the criteria of a rubric.
	Criteria []Criterion `json:"criteria,omitempty"`
	// Graders are the verdicts of the case's graders.
	Graders []verify.GraderResult `json:"graders,omitempty"`
	// Chosen is the skill that a trigger query would activate, "" for none.
	Chosen *string `json:"chosen,omitempty"`
	// Judge records what the judge was asked and answered.
	Judge *judge.Record `json:"judge,omitempty"`
	// Producer records the request to the model that produced the output.
	Producer *judge.Record `json:"producer,omitempty"`
	// Agent is what the agent did; nil without one.
	Agent *attempt.Evidence `json:"agent,omitempty"`
	// Recording is the id by which the trial opens as a session; "" without an agent.
	Recording string `json:"recording,omitempty"`
	// Reported is what another tool measured; nil unless it made the run.
	Reported *imported.Reported `json:"reported,omitempty"`
	// Cost is what all models of the trial cost; nil if none took part.
	Cost *spend.Cost `json:"cost,omitempty"`
	// Package is what the verifier of a task package reported.
	Package *taskpkg.Evidence `json:"package,omitempty"`
	// ExitCode is the exit status of a command, an agent or a verifier.
	ExitCode *int `json:"exit_code,omitempty"`
}

// A Criterion is one line of a rubric and its verdict.
type Criterion struct {
	Text   string `json:"text"`
	Passed bool   `json:"passed"`
	Quote  string `json:"quote"`
	Note   string `json:"note,omitempty"`
}

// Limits of a run.
const (
	MaxTrials = 30 // of each case; the API's schema states it, too
	// MaxTail is how much of an output is stored, in bytes.
	MaxTail = 64 << 10
	// maxTails bounds the outputs of all trials of a run together: a run of many
	// trials stores less of each, but at least minTail.
	maxTails = 64 << 20
	minTail  = 1 << 10
)

// tailLimit returns how many bytes of each output the run stores.
func (r Run) tailLimit() int { return min(MaxTail, max(minTail, maxTails/max(1, r.Total))) }
