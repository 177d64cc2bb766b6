package evals

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// A Run is one execution of a suite's cases against a skill. It keeps the
// cases as they were when it was made.
type Run struct {
	ID       string
	OrgID    string
	SuiteID  string
	SourceID *string // the cloud source that the run says something about
	Status   Status
	Subject  Tested
	Previous *Tested // the skill of the baseline PreviousBaseline
	// Distractors are what the skill competes with in trigger queries, the same
	// for all trials.
	Distractors []judge.Skill
	Trials      int
	Baseline    Baseline
	Seed        int64
	Judge       *judge.Description // nil if no case needs one
	Done        int                // trials, of both variants
	Total       int
	Summary     Summary
	Error       *string // why the run failed; safe to show
	CreatedBy   string
	CreatedAt   time.Time

	StartedAt, FinishedAt *time.Time

	verifier  VerifierKind
	noSkill   bool // whether the suite supports the baseline NoSkill
	caseCount int
	document  json.RawMessage // the cases; nil where only the run's head was read
}

// A Status is how far a run has come.
type Status string

// The statuses. Succeeded means that the run came to its end, whatever the
// verdicts.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// over reports whether nothing more comes of the run.
func (s Status) over() bool { return s != Queued && s != Running }

// A Baseline is what a run compares the skill with.
type Baseline string

// The baselines.
const (
	NoBaseline       Baseline = "none"
	NoSkill          Baseline = "no_skill"
	PreviousBaseline Baseline = "previous"
)

// variants are the ways in which a case is tried.
func (b Baseline) variants() []Variant {
	switch b {
	case NoSkill:
		return []Variant{WithSkill, WithoutSkill}
	case PreviousBaseline:
		return []Variant{WithSkill, WithPrevious}
	case NoBaseline:
	}
	return []Variant{WithSkill}
}

// A Variant says with which skill a trial was made.
type Variant string

// The variants.
const (
	WithSkill    Variant = "skill"
	WithoutSkill Variant = "no_skill"
	WithPrevious Variant = "previous"
)

// A Verdict is what came of a trial or a case.
type Verdict string

// The verdicts. An error says nothing about the skill: it is never a fail.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Error   Verdict = "error"   // there is no verdict: something else went wrong
	Skipped Verdict = "skipped" // the variant does not apply, or the run ended before
)

func (v Verdict) decided() bool { return v == Pass || v == Fail }

// A Unit is one trial to be made: the least that a run does or does not do.
type Unit struct {
	Case    int // its place among the run's cases
	Variant Variant
	N       int // from 1
}

// A Trial is a unit and what came of it.
type Trial struct {
	Unit
	Verdict    Verdict
	Score      *float64 // 0 to 1; nil without a verdict
	Evidence   Evidence
	OutputTail string
	Duration   time.Duration
	Error      *string // why there is no verdict: a code, a colon, a sentence
}

// Evidence says why a trial has its verdict.
type Evidence struct {
	Summary string `json:"summary"`
	// Criteria are those of a rubric.
	Criteria []Criterion `json:"criteria,omitempty"`
	// Chosen is the skill that a trigger query would activate, "" for none.
	Chosen *string `json:"chosen,omitempty"`
	// Judge says how the judge's verdict came about.
	Judge *judge.Record `json:"judge,omitempty"`
	// Producer says how the model's output came about.
	Producer *judge.Record `json:"producer,omitempty"`
	// Package has what a task package's verifier left.
	Package *PackageEvidence `json:"package,omitempty"`
	// ExitCode is that of a command or verifier.
	ExitCode *int `json:"exit_code,omitempty"`
}

// A Criterion is one line of a rubric and its verdict.
type Criterion struct {
	Text   string `json:"text"`
	Passed bool   `json:"passed"`
	Quote  string `json:"quote"`
	Note   string `json:"note,omitempty"`
}

// A SkillRef says which skill a run is about: one of a source, which means its
// newest snapshot, a snapshot, or an entry of the registry, with a version or
// its current one.
type SkillRef struct {
	SourceID   string `json:"source_id,omitempty"` // without its prefix
	SnapshotID string `json:"snapshot_id,omitempty"`
	EntryID    string `json:"entry_id,omitempty"`
	Version    string `json:"version,omitempty"`
}

// Tested is a skill as a run remembers it.
type Tested struct {
	SkillRef        // as the caller named it
	Name     string `json:"name"`
	// ContentHash is of the content that is tested, whatever comes later.
	ContentHash string `json:"content_hash"`
	Label       string `json:"label,omitempty"`
	// Pin names exactly that content.
	Pin SkillRef `json:"pin"`
}

// A Skill is one that can be tested.
type Skill struct {
	Name, Description string
	ContentHash       string
	Label             string // its version, for people; may be empty
	SourceID          string // the cloud source that it comes from, or ""
	// Pin names exactly this content, also when there is newer.
	Pin SkillRef
	// Open reads the content. The caller closes the package.
	Open func(ctx context.Context) (*skillpkg.Package, error)
}

// Subjects finds the skills that runs are about. Errors are for the caller:
// NotFound if there is no such skill, Denied for another organisation's source.
type Subjects interface {
	Subject(ctx context.Context, orgID string, ref SkillRef) (Skill, error)
	// Previous returns the version or snapshot before a skill. If there is none
	// the error is of kind NotFound.
	Previous(ctx context.Context, orgID string, ref SkillRef) (Skill, error)
	// Distractors returns other skills of the organisation, of which a router
	// could choose one instead of the one that is named.
	Distractors(ctx context.Context, orgID, name string) ([]judge.Skill, error)
}

// limits of a run.
const (
	maxTrials = 30
	// maxTail is how much of an output is kept, in bytes.
	maxTail = 64 << 10
	// maxTails bounds it for all trials of a run together.
	maxTails = 64 << 20
	minTail  = 1 << 10
)

// tailLimit is how much of each output the run keeps.
func (r Run) tailLimit() int { return min(maxTail, max(minTail, maxTails/max(1, r.Total))) }
