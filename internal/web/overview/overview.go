// Package overview joins the data of several capabilities for the pages that show
// it side by side. It owns no tables and writes nothing.
package overview

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service reads across capabilities.
type Service struct {
	DB *store.DB

	trends trendCache
}

// A Day has a skill's figures of one day.
type Day struct {
	Date     string
	Sessions int64
	Graded   int64
	PassRate *float64
}

// A Firing is a rule that fires for a skill now.
type Firing struct {
	RuleID, SkillID, SkillName string
	Type                       string // alerts.Type
	Threshold                  float64
	Since                      time.Time
	PassRate                   *float64 // at the last notification
}

// A Waiting is a source with suggestions that wait for a review.
type Waiting struct {
	SourceID, Label string
	Suggestions     int
}

// A Failing is a connection whose last publish failed.
type Failing struct {
	ConnectionID, EntryName, Repo, Ref, Message string
	AttemptedAt                                 time.Time
}

// A Change is an event in the history of a skill.
type Change struct {
	At        time.Time
	Kind      string // published, rolled_back, firing, resolved, new
	SkillID   string // "" if the entry has none
	EntryID   string // "" if it has nothing to do with the registry
	Name      string
	Version   string
	Detail    string // a rollback's reason, or ""
	PassRate  *float64
	Threshold float64
	Others    int // number of further new skills, which share the row
}

// An Entry is the registry's entry of a skill.
type Entry struct {
	ID, Name, Description, CurrentVersion string
	Installations                         int // people who installed it
}
