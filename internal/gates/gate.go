// Package gates lets no version of a skill become current without proof that it
// is not worse than the one before: it tries both on the same cases, decides with
// a known rate of false blocks, and publishes the candidate or keeps it back. It
// owns the tables gate_policies, gates and gate_runs.
package gates

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/registry/gateapi"
)

// A Gate is the comparison of one version with the one that was current.
type Gate struct {
	ID                 string
	OrgID              string
	EntryID            string
	VersionID, Version string
	AgainstID, Against *string // nil for the first version of an entry
	Policy             Policy  // as it was at the push
	Status             Status
	Verdict            *decision.Verdict
	Reason             string
	Result             Result
	Override           *Override
	CreatedBy          string
	CreatedAt          time.Time

	StartedAt, DecidedAt *time.Time
}

// A Status is the state of a gate.
type Status string

// The statuses.
const (
	Queued     Status = "queued"
	Running    Status = "running"
	Decided    Status = "decided"
	Superseded Status = "superseded" // by a newer push, or another current version
	Cancelled  Status = "cancelled"  // a person decided about the version before
)

// Open reports whether the gate has yet to decide.
func (s Status) Open() bool { return s == Queued || s == Running }

// A Result has the numbers that led to a verdict.
type Result struct {
	Suites  []gateapi.Suite `json:"suites"`
	Floors  []gateapi.Floor `json:"floors"`
	CostUSD *float64        `json:"cost_usd"`
}

// An Override is a person's decision against the verdict.
type Override struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// holds reports whether the gate keeps its version a candidate.
func (g Gate) holds() bool { return g.Policy.Mode == Enforce }

// Shown is the verdict or, without one, the status.
func (g Gate) Shown() string {
	if g.Verdict != nil {
		return string(*g.Verdict)
	}
	return string(g.Status)
}

// Output is the gate as the API shows it.
func (g Gate) Output() gateapi.Gate {
	out := gateapi.Gate{
		ID: g.ID, EntryID: g.EntryID, Version: g.Version, Against: g.Against, Mode: string(g.Policy.Mode), Status: string(g.Status),
		Reason: g.Reason, Suites: append([]gateapi.Suite{}, g.Result.Suites...), Floors: append([]gateapi.Floor{}, g.Result.Floors...),
		FalseBlockRate: decision.FalseBlockRate, CostUSD: g.Result.CostUSD,
		CreatedAt: httpapi.Time(g.CreatedAt), DecidedAt: httpapi.NullTime(g.DecidedAt),
	}
	if g.Verdict != nil {
		verdict := string(*g.Verdict)
		out.Verdict = &verdict
	}
	if o := g.Override; o != nil {
		out.Override = &gateapi.Override{By: o.By, Reason: o.Reason, At: httpapi.Time(o.At)}
	}
	return out
}
