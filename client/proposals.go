package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client/api"
)

type proposalAnswer struct {
	Proposal api.Proposal `json:"proposal"`
	Patch    string       `json:"patch"`
}

const proposalsPath = "/api/v1/proposals"

func proposalPath(id string) string { return proposalsPath + "/" + url.PathEscape(id) }

// A ProposalFilter selects proposals; an empty field selects all.
type ProposalFilter struct {
	Status    string
	SkillName string
}

// Proposals lists the proposals, newest first.
func (c *Client) Proposals(ctx context.Context, f ProposalFilter) ([]api.Proposal, error) {
	query := newQuery(map[string]string{"status": f.Status, "skill_name": f.SkillName})
	return List[api.Proposal](ctx, c, proposalsPath, "proposals", query)
}

// Proposal returns a proposal. An unknown one is an *Error with the status 404.
func (c *Client) Proposal(ctx context.Context, id string) (api.Proposal, error) {
	var out proposalAnswer
	err := c.get(ctx, proposalPath(id), nil, &out)
	return out.Proposal, err
}

// ChangeProposal writes what a proposal proposes; it approves or rejects it, or marks it as
// applied. A transition that is not allowed is an *Error with the status 409.
func (c *Client) ChangeProposal(ctx context.Context, id string, change api.ProposalChange) (api.Proposal, error) {
	var out proposalAnswer
	err := c.Call(ctx, http.MethodPatch, proposalPath(id), change, &out)
	return out.Proposal, err
}

// RefreshProposal makes a proposal from signals again, for the current text.
func (c *Client) RefreshProposal(ctx context.Context, id string) (api.Proposal, error) {
	var out proposalAnswer
	err := c.Call(ctx, http.MethodPost, proposalPath(id)+"/refresh", nil, &out)
	return out.Proposal, err
}

// ApplyProposal applies a proposal as a version, a pull_request or a patch, which it returns.
func (c *Client) ApplyProposal(ctx context.Context, id, as string) (p api.Proposal, patch string, err error) {
	var out proposalAnswer
	err = c.Call(ctx, http.MethodPost, proposalPath(id)+"/apply", map[string]string{"as": as}, &out)
	return out.Proposal, out.Patch, err
}
