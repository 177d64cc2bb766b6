// Package report shows an organisation what its agents are offered: which skills, what
// their names and descriptions cost, what Claude Code and Codex truncate or drop of
// them, which skills take each other's requests, which are never used, and the settings
// that switch those off. It owns no tables and writes nothing.
package report

import (
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
)

// Service makes reports.
type Service struct {
	DB    *store.DB
	Costs *costs.Service
}

// Options are what a report is about.
type Options struct {
	Agent  listing.Agent
	Window int64 // context window of the model, in tokens; 0 for the agent's usual one
	Days   int   // of sessions and runs, today included
}

// The limits of Options.
const (
	MinWindow = 1_000
	MaxWindow = 10_000_000
	MaxDays   = 365
)

// A Report is about all skills of an organisation.
type Report struct {
	Options
	Generated time.Time
	Catalogue
	// Sessions is how many sessions with model requests there were; nil if none was
	// reported, so that nothing is known.
	Sessions *int64
	Model    string // whose prices are used; "" if no price is known
	// Reported is whether agents reported anything about skills.
	Reported bool
	Skills   []Skill // by name
	Totals   Totals
	Overlaps []Overlap
	Routing  Routing
	Suites   []Suite // that Routing has requests of, the newest run first
	Switch   SwitchOff
	Retire   []api.RetirableSkill // the dearest first
}

// A Catalogue is the budget of a listing.
type Catalogue struct {
	Unit   listing.Unit
	Limit  int64
	Needed int64
	Used   int64
}

// A Use says whether a skill was used in the window.
type Use string

// The uses. Unknown is a skill of which no use was reported, if that says nothing:
// it is younger than the window, or agents report nothing at all.
const (
	Used    Use = "used"
	Unused  Use = "unused"
	Unknown Use = "unknown"
)

// A Basis says which sessions a skill is taken to be listed in.
type Basis string

// The bases.
const (
	// Offered are the sessions that were offered the skill, as agents reported.
	Offered Basis = "offered"
	// AllSessions are all of the organisation: the most that can be.
	AllSessions Basis = "all_sessions"
)

// A Skill is one of the registry, or one that agents reported.
type Skill struct {
	EntryID, SkillID string // "" if it is not in the registry, or nothing was reported
	Name, Version    string
	InRegistry       bool
	CreatedAt        time.Time
	// OwnPolicy is whether the version has agents/openai.yaml, which may hide it from
	// Codex: its content is not read.
	OwnPolicy bool

	Line listing.Line // zero without a text
	// Tokens are those of what is listed; nil if the text is not known.
	Tokens *int64

	// OfferedSessions is nil if no agent reported offers of it, and UsedSessions if
	// agents report nothing.
	OfferedSessions, UsedSessions *int64
	Uses                          int64
	Use                           Use

	Basis             Basis // "" if the number of sessions is not known
	TokensInWindow    *int64
	DollarsPerSession *float64
	DollarsInWindow   *float64
	TokensPerUse      *int64 // of TokensInWindow

	Action listing.Visibility // On unless it is better otherwise
	Reason string             // of an Action

	explicit bool // every use named it
	bytes    *int // of SKILL.md; nil if it is not known
}

// Totals are sums over the skills of a report.
type Totals struct {
	Skills     int // in the registry
	Others     int // that agents reported, and are not in the registry
	Full       int
	Truncated  int
	NameOnly   int
	Omitted    int
	Hidden     int
	CutText    int // characters that the model does not see
	Unused     int
	Tokens     int64 // of the whole listing, per session
	PerSession *float64
	InWindow   *float64 // in all sessions
	LeftOut    bool     // there are more skills than a report reads
}

// From is where an overlap is known from.
type From string

// The evidence of overlaps.
const (
	FromRuns     From = "runs"
	FromSessions From = "sessions"
)

// An Overlap is two skills for the same requests.
type Overlap struct {
	Skill, TakenBy string
	From           From
	// Taken is how many requests of Skill went to TakenBy: trials of trigger cases, or
	// sessions that considered Skill without activating it and activated TakenBy.
	Taken int
	// Together is in how many sessions both were activated.
	Together int
	Of       int    // trials or sessions that were about Skill
	RunID    string // the newest run, of an overlap from runs
}

// Routing compares which skills the requests of trigger cases find by the whole
// descriptions and by what is left of them.
type Routing struct {
	Cases          int // requests that should trigger a skill of the listing
	Right, Cut     int // of which find it by the whole text, and by the rest
	Changed        []Change
	ChangedInTotal int
	// Measured is what runs on the catalogue of the agent showed; nil if there are none.
	Measured *Measured
}

// A Suite is one with trigger cases that ran in the window.
type Suite struct{ ID, Name, Skill string }

// Measured compares the trigger cases that should choose their skill in pairs of runs,
// one with whole descriptions and one with what the agent lists. A case counts if both
// have a verdict.
type Measured struct {
	Judges     []string // models, by name
	Cases      int
	Right, Cut int // cases that chose their skill by the whole text, and by the rest
	Lost, Won  int // cases that only the whole text gets right, and only the rest
	P          float64
	Pairs      []RunPair // the newest of each suite
}

// Recall is the share of cases that chose their skill by whole descriptions.
func (m Measured) Recall() float64 { return float64(m.Right) / float64(m.Cases) }

// CutRecall is the share that did so by what the agent lists.
func (m Measured) CutRecall() float64 { return float64(m.Cut) / float64(m.Cases) }

// A RunPair is two runs of a suite that differ in the listing only.
type RunPair struct {
	SuiteID, Suite, Skill string
	FullID, CutID         string // runs
	Cases, Right, Cut     int
}

// A Change is a request that finds another skill in the truncated listing.
type Change struct {
	Skill, Query  string
	Before, After string   // "" for no skill
	Lost          []string // words of the request in the part that is cut
	RunID         string
}

// SwitchOff is what to change so that agents list less.
type SwitchOff struct {
	Skills []Skill // with an Action
	// After is the listing with these changes, and Tokens what it takes.
	After  Catalogue
	Forms  map[listing.Form]int
	Tokens int64
	// Overrides are for skillOverrides of Claude Code. It ignores them for skills of
	// plugins, which are in Plugins.
	Overrides map[string]listing.Visibility
	Plugins   []string
	// Implicit are the skills that Codex should not use by itself.
	Implicit []string
}
