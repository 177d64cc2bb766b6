// Package comparisons says which of several arms is better on the cases of a suite: versions
// of a skill, no skill at all, other agents and models. Each arm is an eval run under the same
// conditions; what the runs show becomes a recommendation with a stated error. It owns the
// tables comparisons, comparison_arms and comparison_preferences.
package comparisons

import (
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// A Comparison tries several arms on the cases of a suite.
type Comparison struct {
	ID         string
	OrgID      string
	SuiteID    string // may be deleted
	Status     runs.Status
	Trials     int // of each case in each arm
	Preference bool
	Margin     float64
	MaxMicros  *int64 // that all arms may cost together; nil for no limit
	Seed       int64  // of all runs
	Arms       []Arm
	Result     *Result // nil until the comparison is over
	Error      *string // why it failed; safe to show
	CreatedBy  string
	CreatedAt  time.Time
	StartedAt  *time.Time // nil until the runs are planned
	EndedAt    *time.Time
}

// An Arm is what one run of a comparison tries.
type Arm struct {
	Name    string
	Subject subject.Ref // the zero value for no skill
	Agent   *suites.Agent
	Label   string // the version that was found

	comparisonID string
	position     int
	runID        string // "" before the run is planned
	// conditions are those of the run with its content: runs of equal ones can be reused.
	conditions string
	reused     bool
}

// Made implements runs.Purpose.
func (a Arm) Made() (runID string, reused bool) { return a.runID, a.reused }

// NoSkill reports whether the arm tries the cases without a skill.
func (a Arm) NoSkill() bool { return a.Subject == (subject.Ref{}) }

// variant is the arm of the run whose trials are the arm's.
func (a Arm) variant() runs.Arm {
	if a.NoSkill() {
		return runs.WithoutSkill
	}
	return runs.WithSkill
}

// runIDs are the runs of the arms, in their order.
func (c Comparison) runIDs() []string {
	ids := make([]string, len(c.Arms))
	for i, a := range c.Arms {
		ids[i] = a.runID
	}
	return ids
}

// ownRunIDs are the runs that the comparison pays for.
func (c Comparison) ownRunIDs() (ids []string) {
	for _, a := range c.Arms {
		if !a.reused {
			ids = append(ids, a.runID)
		}
	}
	return ids
}

// A Result is what a comparison found. Its types are those of the API, which show it as it
// was stored.
type Result struct {
	Arms           []api.ComparedArm
	Pairs          []api.ComparedPair
	Recommendation api.ComparisonRecommendation
	CostUSD        *float64
}

// Limits of a comparison; the API's schema states them, too.
const (
	MinArms       = 2
	MaxArms       = 8
	MaxMargin     = 0.5
	DefaultTrials = 3
	DefaultMargin = 0.05
	maxName       = 100
)

// A New describes a comparison to start.
type New struct {
	SuiteID    string
	Arms       []NewArm
	Trials     int // 0 means DefaultTrials
	Margin     *float64
	Preference bool
	MaxMicros  *int64
}

// A NewArm describes an arm. Exactly one of Subject and NoSkill is set.
type NewArm struct {
	Name    string
	Subject subject.Ref
	NoSkill bool
	Agent   *suites.Agent
}

// check reports what is wrong with a comparison before anything is looked up.
func (n New) check() error {
	switch {
	case n.SuiteID == "":
		return fault.Invalid("suite_id", "suite_id is needed: the suite whose cases every arm is tried on")
	case len(n.Arms) < MinArms || len(n.Arms) > MaxArms:
		return fault.Invalid("arms", "arms must be %d to %d", MinArms, MaxArms)
	case n.Trials < 0 || n.Trials > runs.MaxTrials:
		return fault.Invalid("trials", "trials must be 1 to %d", runs.MaxTrials)
	case n.Margin != nil && !(*n.Margin >= 0 && *n.Margin <= MaxMargin):
		return fault.Invalid("margin", "margin must be 0 to %g", MaxMargin)
	}
	for i, a := range n.Arms {
		path := fmt.Sprintf("arms.%d", i)
		given := 0
		for _, is := range []bool{a.Subject.EntryID != "", a.Subject.SourceID != "", a.NoSkill} {
			if is {
				given++
			}
		}
		switch {
		case given != 1:
			return fault.Invalid(path, "%s needs exactly one of entry_id, source_id and no_skill", path)
		case a.Subject.Version != "" && a.Subject.EntryID == "":
			return fault.Invalid(path+".version", "%s.version is of an entry: give its entry_id", path)
		case len(a.Name) > maxName:
			return fault.Invalid(path+".name", "%s.name must be at most %d characters", path, maxName)
		}
		for k, b := range n.Arms[:i] {
			if a.Name != "" && a.Name == b.Name {
				return fault.Invalid(path+".name", "%s.name must differ from that of arms.%d", path, k)
			}
		}
	}
	return nil
}

// names gives a name to arms without one: what they try, and their agents where these differ.
func names(arms []Arm, skills []string) {
	agents := map[string]bool{}
	for _, a := range arms {
		agents[agentName(a.Agent)] = true
	}
	taken := map[string]bool{}
	for _, a := range arms {
		taken[a.Name] = true
	}
	for i := range arms {
		a := &arms[i]
		if a.Name != "" {
			continue
		}
		name := strings.TrimSpace(skills[i] + " " + a.Label)
		if a.NoSkill() {
			name = "no skill"
		}
		if len(agents) > 1 {
			name += ", " + agentName(a.Agent)
		}
		a.Name = name
		for n := 2; taken[a.Name]; n++ {
			a.Name = fmt.Sprintf("%s (%d)", name, n)
		}
		taken[a.Name] = true
	}
}

func agentName(a *suites.Agent) string {
	if a == nil {
		return "no agent"
	}
	return strings.TrimSpace(a.Name + " " + a.Model)
}

// equal reports whether two arms would try the same.
func (a Arm) equal(b Arm) bool {
	sameAgent := a.Agent == nil && b.Agent == nil || a.Agent != nil && b.Agent != nil && *a.Agent == *b.Agent
	return a.Subject == b.Subject && sameAgent
}
