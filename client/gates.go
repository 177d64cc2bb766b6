package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client/api"
)

// A GatePolicy says how versions of an entry are gated.
type GatePolicy struct {
	Mode           string          `json:"mode"` // off, report or enforce
	Suites         []string        `json:"suites"`
	Agent          json.RawMessage `json:"agent"` // null: what the cases say
	Trials         int             `json:"trials"`
	MinCases       int             `json:"min_cases"`
	OnInconclusive string          `json:"on_inconclusive"` // pass or hold
	MaxCostUSD     *float64        `json:"max_cost_usd"`
	MaxMinutes     int             `json:"max_minutes"`
	Approvals      int             `json:"approvals"`
	SelfApproval   bool            `json:"self_approval"`
	HostReviews    bool            `json:"host_reviews"`
	Floors         json.RawMessage `json:"floors"`
}

// GatePolicy returns the policy of an entry, or that of all entries without one of
// their own if the id is empty.
func (c *Client) GatePolicy(ctx context.Context, entryID string) (GatePolicy, error) {
	var out struct {
		Policy GatePolicy `json:"policy"`
	}
	err := c.get(ctx, policyPath(entryID), nil, &out)
	return out.Policy, err
}

// SetGatePolicy changes the policy of an entry, or that of all entries without one
// of their own if the id is empty.
func (c *Client) SetGatePolicy(ctx context.Context, entryID string, p GatePolicy) (GatePolicy, error) {
	var out struct {
		Policy GatePolicy `json:"policy"`
	}
	body := encode(map[string]any{"policy": p})
	_, err := c.do(ctx, call{method: http.MethodPut, path: policyPath(entryID), body: body, idempotent: true}, &out)
	return out.Policy, err
}

func policyPath(entryID string) string {
	if entryID == "" {
		return "/api/v1/settings/gate-policy"
	}
	return entryPath(entryID) + "/gate-policy"
}

type (
	// A Gate is the comparison of a pushed version with the current one, and its verdict.
	Gate = api.Gate
	// A GateCase has the decided trials of a case for both versions.
	GateCase = api.GateCase
	// GateConfirmed is the result of Fisher's exact test on the fresh trials of a case.
	GateConfirmed = api.GateConfirmed
	// A GateFloor is an absolute requirement of the policy, e.g. a minimum pass rate.
	GateFloor = api.GateFloor
	// A GateOverride is a person's decision to disregard a verdict.
	GateOverride = api.GateOverride
	// A GatePullRequest is one whose head commit is gated before the merge.
	GatePullRequest = api.GatePullRequest
	// A GateScore compares the mean scores of the two versions. The score of a case is the share
	// of its decided trials that passed.
	GateScore = api.GateScore
	// A GateSuite has the results of one suite's trials.
	GateSuite = api.GateSuite
	// A GateSuiteChange is an edit of a suite between two gates of an entry. It's shown with the
	// verdict, since weakening a suite is one way past a gate.
	GateSuiteChange = api.GateSuiteChange
	// GateTrials counts decided trials; those with errors don't count.
	GateTrials = api.GateTrials
)

// Gates lists the gates of an entry, or of all if the id is empty, newest first.
// The verdict, if not empty, chooses among them.
func (c *Client) Gates(ctx context.Context, entryID, verdict string) ([]Gate, error) {
	query := newQuery(map[string]string{"entry_id": entryID, "verdict": verdict})
	return List[Gate](ctx, c, "/api/v1/gates", "gates", query)
}

// Gate returns a gate.
func (c *Client) Gate(ctx context.Context, id string) (Gate, error) {
	var out gateOutput
	err := c.get(ctx, gatePath(id), nil, &out)
	return out.Gate, err
}

// A GateQuestion asks for the gate of a snapshot; what is empty or nil is as the
// entry's policy says.
type GateQuestion struct {
	SnapshotID string   `json:"snapshot_id"` // of a cloud source
	Version    string   `json:"version,omitempty"`
	Against    string   `json:"against,omitempty"` // empty: the current version
	Suites     []string `json:"suites,omitempty"`
	Trials     *int     `json:"trials,omitempty"`
	MinCases   *int     `json:"min_cases,omitempty"`
}

// AskGate starts the gate of a snapshot, of which nothing is published.
func (c *Client) AskGate(ctx context.Context, entryID string, q GateQuestion) (Gate, error) {
	var out gateOutput
	_, err := c.do(ctx, call{method: http.MethodPost, path: entryPath(entryID) + "/gates", body: encode(q)}, &out)
	return out.Gate, err
}

// RerunGate gates the same version again and returns the new gate.
func (c *Client) RerunGate(ctx context.Context, id string) (Gate, error) {
	var out gateOutput
	_, err := c.do(ctx, call{method: http.MethodPost, path: gatePath(id) + "/rerun"}, &out)
	return out.Gate, err
}

// OverrideGate makes the candidate of a gate current against the verdict.
func (c *Client) OverrideGate(ctx context.Context, id, reason string) (Gate, error) {
	var out gateOutput
	body := encode(map[string]string{"reason": reason})
	_, err := c.do(ctx, call{method: http.MethodPost, path: gatePath(id) + "/override", body: body}, &out)
	return out.Gate, err
}

type gateOutput struct {
	Gate Gate `json:"gate"`
}

func gatePath(id string) string { return "/api/v1/gates/" + url.PathEscape(id) }

// Promote makes a candidate current without the verdict of its gate.
func (c *Client) Promote(ctx context.Context, entryID, version, reason string) (Released, error) {
	return c.release(ctx, entryID, version, "promote", reason)
}

// Withdraw keeps a version from being current; the current one is rolled back.
func (c *Client) Withdraw(ctx context.Context, entryID, version, reason string) (Released, error) {
	return c.release(ctx, entryID, version, "withdraw", reason)
}

// Restore undoes the withdrawal of a version.
func (c *Client) Restore(ctx context.Context, entryID, version, reason string) (Released, error) {
	return c.release(ctx, entryID, version, "restore", reason)
}

func (c *Client) release(ctx context.Context, entryID, version, action, reason string) (out Released, err error) {
	path := entryPath(entryID) + "/versions/" + url.PathEscape(version) + "/" + action
	_, err = c.do(ctx, call{method: http.MethodPost, path: path, body: encode(map[string]string{"reason": reason})}, &out)
	return out, err
}
