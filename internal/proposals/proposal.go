// Package proposals stores proposed changes of skills with their evidence: from
// findings in contributors' signals, or from improve runs. A person approves or
// rejects them. It owns the table proposals.
package proposals

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Proposal is a proposed change of a skill.
type Proposal struct {
	ID                string
	OrgID             string
	SkillID           string
	SkillName         string
	Finding           string // e.g. "missed_trigger"; unique per skill
	Type              Type
	CurrentValue      *string
	ProposedValue     *string // nil if only the reason is known
	Reason            string
	Confidence        *float64
	PassRateBefore    *float64
	ProjectedPassRate *float64
	Evidence          json.RawMessage
	Status            Status
	ProposedBy        string // Contributors or "improve_run"
	ReviewedBy        *string
	ReviewedAt        *time.Time
	AppliedAt         *time.Time
	CreatedAt         time.Time
}

// A Type is the part of the skill that should change.
type Type string

// The types.
const (
	Description Type = "description"
	Body        Type = "body"
)

// A Status is the state of a proposal.
type Status string

// The statuses.
const (
	Pending  Status = "pending"
	Approved Status = "approved"
	Rejected Status = "rejected"
	Applied  Status = "applied"
)

// transitions are the permitted next statuses of each.
var transitions = map[Status][]Status{
	Pending:  {Approved, Rejected},
	Approved: {Applied, Rejected},
	Rejected: {},
	Applied:  {},
}

// move changes the status. Moving to the current status has no effect.
func (p *Proposal) move(to Status, userID string, now time.Time) error {
	if to == p.Status {
		return nil
	}
	if !slices.Contains(transitions[p.Status], to) {
		return fault.New(fault.Conflict, "A proposal that is %s cannot become %s", p.Status, to)
	}
	p.Status = to
	if to == Applied {
		p.AppliedAt = &now
		return nil
	}
	p.ReviewedBy, p.ReviewedAt = &userID, &now
	return nil
}

// A Draft is a proposal to be created.
type Draft struct {
	OrgID             string
	SkillName         string
	Finding           string // for dedup: one proposal per skill and finding
	Type              Type
	CurrentValue      *string
	ProposedValue     *string
	Reason            string
	Confidence        *float64
	PassRateBefore    *float64
	ProjectedPassRate *float64
	Evidence          any // marshalled to JSON
	ProposedBy        string
}
