// Package proposals keeps what should change about a skill, and why: found in
// contributors' signals, or proposed by others. A person decides. It owns the
// table proposals.
package proposals

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Proposal says what should change about a skill.
type Proposal struct {
	ID                string
	OrgID             string
	SkillID           string
	SkillName         string
	Finding           string
	Type              Type
	CurrentValue      *string
	ProposedValue     *string // nil: only the reason is known
	Reason            string
	Confidence        *float64
	PassRateBefore    *float64
	ProjectedPassRate *float64
	Evidence          json.RawMessage
	Status            Status
	ProposedBy        string
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

// A Status is where a proposal stands.
type Status string

// The statuses.
const (
	Pending  Status = "pending"
	Approved Status = "approved"
	Rejected Status = "rejected"
	Applied  Status = "applied"
)

// transitions are the statuses that may follow each.
var transitions = map[Status][]Status{
	Pending:  {Approved, Rejected},
	Approved: {Applied, Rejected},
	Rejected: {},
	Applied:  {},
}

// move changes the status. Moving to where it stands is not an error.
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

// A Draft is a proposal to be made. One is made for each finding about a skill.
type Draft struct {
	OrgID             string
	SkillName         string
	Finding           string // names what it answers
	Type              Type
	CurrentValue      *string
	ProposedValue     *string
	Reason            string
	Confidence        *float64
	PassRateBefore    *float64
	ProjectedPassRate *float64
	Evidence          any // made into JSON
	ProposedBy        string
}
