package improving

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A Proposal is a proposed change of a skill.
type Proposal struct {
	ID                string          `json:"id"`
	SkillID           string          `json:"skill_id"`
	SkillName         string          `json:"skill_name"`
	Type              string          `json:"proposal_type"` // description or body
	Target            string          `json:"target"`        // description, body or both
	Finding           string          `json:"finding"`
	Status            string          `json:"status"` // pending, approved, rejected or applied
	CurrentValue      *string         `json:"current_value"`
	ProposedValue     *string         `json:"proposed_value"`
	Reason            string          `json:"reason"`
	Confidence        *float64        `json:"confidence"`
	PassRateBefore    *float64        `json:"pass_rate_before"`
	ProjectedPassRate *float64        `json:"projected_pass_rate"`
	Evidence          json.RawMessage `json:"evidence,omitempty"`
	EntryID           *string         `json:"entry_id"`
	BaseVersion       *string         `json:"base_version"` // that it was made for
	Diff              *string         `json:"diff"`         // unified, of SKILL.md
	Edits             []Edit          `json:"edits"`
	Proved            bool            `json:"proved"`
	Proof             *Proof          `json:"proof"`
	Stale             bool            `json:"stale"` // the words that it was made for have changed since
	StaleReason       *string         `json:"stale_reason"`
	Outcome           *Outcome        `json:"outcome"` // nil: it was not applied
	ProposedBy        string          `json:"proposed_by"`
	ReviewedAt        *time.Time      `json:"reviewed_at"`
	ReviewedBy        *string         `json:"reviewed_by"`
	RefreshedAt       *time.Time      `json:"refreshed_at"` // when it was made anew for other words
	AppliedAt         *time.Time      `json:"applied_at"`
	CreatedAt         time.Time       `json:"created_at"`
}

// An Edit is a part of a change, with its reason and the cases that it should help.
type Edit struct {
	Op     string   `json:"op"` // replace, insert_after or delete
	Anchor string   `json:"anchor"`
	Text   string   `json:"text"`
	Why    string   `json:"why"`
	Cases  []string `json:"cases"`
}

// An Outcome is what became of a proposal.
type Outcome struct {
	Kind             string    `json:"kind"` // version, pull_request or patch
	State            string    `json:"state"`
	Message          *string   `json:"message"`
	Version          *string   `json:"version"`
	URL              *string   `json:"url"`
	Branch           *string   `json:"branch"`
	ObservedPassRate *float64  `json:"observed_pass_rate"`
	UpdatedAt        time.Time `json:"updated_at"`
}

type proposalAnswer struct {
	Proposal Proposal `json:"proposal"`
	Patch    string   `json:"patch"`
}

const (
	proposalsPath = "/api/v1/proposals"
	perPage       = 100
)

func proposalPath(id string) string { return proposalsPath + "/" + url.PathEscape(id) }

// A ProposalFilter selects proposals; an empty field selects all.
type ProposalFilter struct {
	Status    string
	SkillName string
}

// Proposals lists the proposals, newest first.
func (c Client) Proposals(ctx context.Context, f ProposalFilter) ([]Proposal, error) {
	all := []Proposal{}
	for page := 1; ; page++ {
		var out struct {
			Proposals  []Proposal `json:"proposals"`
			Pagination struct {
				Total int `json:"total"`
			} `json:"pagination"`
		}
		path := withQuery(proposalsPath, map[string]string{
			"status": f.Status, "skill_name": f.SkillName, "page": strconv.Itoa(page), "per_page": strconv.Itoa(perPage),
		})
		if err := c.Call(ctx, http.MethodGet, path, nil, &out); err != nil {
			return nil, err
		}
		all = append(all, out.Proposals...)
		if len(out.Proposals) == 0 || len(all) >= out.Pagination.Total {
			return all, nil
		}
	}
}

// Proposal returns a proposal. An unknown one is a *client.Error with the status 404.
func (c Client) Proposal(ctx context.Context, id string) (Proposal, error) {
	var out proposalAnswer
	err := c.Call(ctx, http.MethodGet, proposalPath(id), nil, &out)
	return out.Proposal, err
}

// SetStatus approves or rejects a proposal, or marks it as applied. A transition that
// is not allowed is a *client.Error with the status 409.
func (c Client) SetStatus(ctx context.Context, id, status string) (Proposal, error) {
	return c.patch(ctx, id, map[string]string{"status": status})
}

// SetValue writes what a proposal proposes.
func (c Client) SetValue(ctx context.Context, id, value string) (Proposal, error) {
	return c.patch(ctx, id, map[string]string{"proposed_value": value})
}

func (c Client) patch(ctx context.Context, id string, fields map[string]string) (Proposal, error) {
	var out proposalAnswer
	err := c.Call(ctx, http.MethodPatch, proposalPath(id), fields, &out)
	return out.Proposal, err
}

// Apply applies a proposal as a version, a pull_request or a patch, which it returns.
func (c Client) Apply(ctx context.Context, id, as string) (p Proposal, patch string, err error) {
	var out proposalAnswer
	err = c.Call(ctx, http.MethodPost, proposalPath(id)+"/apply", map[string]string{"as": as}, &out)
	return out.Proposal, out.Patch, err
}
