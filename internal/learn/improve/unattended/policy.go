// Package unattended starts improve runs by itself: at night, for skills in
// trouble whose organisation asks for it, within a budget for the month. It owns
// the tables improve_policies and improve_policy_runs.
package unattended

import (
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Mode says what may happen to a skill without a person.
type Mode string

// The modes.
const (
	Off     Mode = "off"
	Propose Mode = "propose" // a better text becomes a proposal
	Publish Mode = "publish" // a proved one becomes a version, which the gate lets pass or holds
)

// A Policy says whether a skill is improved by itself. It is off for every skill until an
// administrator sets it.
type Policy struct {
	Mode       Mode
	MonthlyUSD float64 // what its runs may cost in a calendar month (UTC); a run under way counts with its limit
	Night              // the last one that looked at the skill
}

// A Night is what happened to a skill in one night.
type Night struct {
	Date  string  // e.g. "2026-01-02"; "" before the first one
	Note  string  // what was done, or why nothing was
	RunID *string // of a run whose end has not been looked at
}

const maxMonthlyUSD = 1_000_000

func (p Policy) check() error {
	if !slices.Contains([]Mode{Off, Propose, Publish}, p.Mode) {
		return fault.Invalid("mode", "mode must be off, propose or publish")
	}
	if !(p.MonthlyUSD >= 0 && p.MonthlyUSD <= maxMonthlyUSD) {
		return fault.Invalid("monthly_usd", "monthly_usd must be 0 to %d", maxMonthlyUSD)
	}
	if p.Mode != Off && p.MonthlyUSD == 0 {
		return fault.Invalid("monthly_usd", "monthly_usd must be above 0, or nothing could be started")
	}
	return nil
}

// policyOf is a policy with what it is about.
type policyOf struct {
	Policy
	orgID, skillID string
	userID         string // who set it: runs are started on their behalf
}

const (
	// minNewCases is how many cases must be new since the last improve run of a suite:
	// fewer would split into too few to write from, to choose by and to prove on.
	minNewCases = 16
	// maxRunUSD keeps one run from spending the budget of a month.
	maxRunUSD = 2.0
)

// dateOf is the night that a moment belongs to.
func dateOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// monthOf is when the month of a moment began.
func monthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}
