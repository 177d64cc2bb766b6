package client

import "context"

// A GatePolicy says how versions of an entry are gated, as far as a client needs
// to know.
type GatePolicy struct {
	Mode     string   `json:"mode"` // off, report or enforce
	Suites   []string `json:"suites"`
	Trials   int      `json:"trials"`
	MinCases int      `json:"min_cases"`
}

// GatePolicy returns the policy of an entry.
func (c *Client) GatePolicy(ctx context.Context, entryID string) (GatePolicy, error) {
	var out struct {
		Policy GatePolicy `json:"policy"`
	}
	err := c.get(ctx, entryPath(entryID)+"/gate-policy", nil, &out)
	return out.Policy, err
}
