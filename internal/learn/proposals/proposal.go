// Package proposals stores proposed changes of skills with their evidence: from
// findings in contributors' signals, or from improve runs. A person approves or
// rejects them. It owns the table proposals.
package proposals

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Proposal is a proposed change of a skill.
type Proposal struct {
	ID                string
	OrgID             string
	SkillID           string
	SkillName         string
	Finding           string // e.g. "missed_trigger"; unique per skill
	Type              Type
	Target            Target
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

	Change
	Proved      bool   // the proof says that it is better than the words it was made for
	Proof       *Proof // nil: not tried
	EditedBy    *string
	RefreshedAt *time.Time

	Stale   string   // why it cannot be applied: the words that it was made for have changed since; "" if they have not
	Outcome *Outcome // nil: it was not applied
}

// A Change is what a proposal does to a SKILL.md, and where that is from. Its fields are empty for
// proposals of earlier versions, which have only a value; see Complete.
type Change struct {
	EntryID     string // of the registry; "" outside it
	BaseVersion string // that it was made for; "" outside the registry
	SourceID    string // the cloud source that has the words, outside the registry
	BaseDigest  string // SHA-256 in hex of the SKILL.md that it was made for; "" if that is not known
	SkillMD     string // the whole proposed SKILL.md, which is what is applied; "" while there is none
	Diff        string // unified, of SKILL.md
	Edits       []Edit
}

// An Edit is a part of the change: with its reason, and the cases that it should
// help. Anchor and Text have the meaning of package edit.
type Edit = api.ProposalEdit

// Proof is the comparison of the proposed words with the current ones, on cases that
// neither wrote nor chose them.
type Proof = api.ProposalProof

// A Target is what a proposal rewrites. Clients that know only types read both as
// Body. Clients that know two types apply the value of a body and leave the description as it is.
type Target string

// The targets.
const (
	TargetDescription Target = "description"
	TargetBody        Target = "body"
	TargetBoth        Target = "both"
)

// Type is the one that clients apply the value of.
func (t Target) Type() Type {
	if t == TargetDescription {
		return Description
	}
	return Body
}

// An Outcome is what became of a proposal that was applied. There is at most one: applying again
// replaces an outcome that has failed or ended.
type Outcome struct {
	Kind             Way
	State            State
	Message          string // why it is in this state; "" if that needs no words
	EntryID          string // of the version
	Version          string // "" before there is one
	VersionID        string
	ConnectionID     string // of the pull request
	Branch           string
	Commit           string
	Number           int
	URL              string // of the pull request; "" if the code host has none
	AppliedBy        string
	ObservedPassRate *float64 // of the version since then; nil while there is none
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// A Way is how a proposal is applied.
type Way string

// The ways.
const (
	AsVersion     Way = "version"
	AsPullRequest Way = "pull_request"
	AsPatch       Way = "patch"
)

// A State is that of an outcome.
type State string

// The states. A version goes from queued over candidate to published or blocked, a pull request
// over open to merged or closed; a patch is only given.
const (
	Queued State = "queued" // a job is about to do it
	Failed State = "failed" // it could not; Message says why

	Candidate  State = "candidate" // a gate tries the version
	Blocked    State = "blocked"
	Published  State = "published"
	RolledBack State = "rolled_back"
	Withdrawn  State = "withdrawn"

	Open   State = "open"
	Merged State = "merged"
	Closed State = "closed"

	Given State = "given"
)

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

// transitions are the permitted next statuses of each. Rejected and applied are final. A proposal
// that is rejected stays, so that the same finding doesn't propose it again.
var transitions = map[Status][]Status{
	Pending:  {Approved, Rejected},
	Approved: {Applied, Rejected},
	Rejected: {},
	Applied:  {},
}

// move changes the status. Moving to the current status has no effect. Applying isn't a review: it
// leaves the reviewer as it is.
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

// A Draft is a proposal to be created. It becomes a proposal unless the skill has one for this
// finding already.
type Draft struct {
	OrgID             string
	SkillName         string
	Finding           string // for dedup: one proposal per skill and finding
	Type              Type
	Target            Target // "": as Type says
	CurrentValue      *string
	ProposedValue     *string
	Reason            string
	Confidence        *float64
	PassRateBefore    *float64
	ProjectedPassRate *float64
	Evidence          any // marshalled to JSON
	ProposedBy        string

	Change
	Proved bool
	Proof  *Proof
}
