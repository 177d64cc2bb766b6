package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
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

// A Gate is the comparison of a pushed version with the current one.
type Gate struct {
	ID             string        `json:"id"`
	EntryID        string        `json:"entry_id"`
	Version        string        `json:"version"`
	Against        *string       `json:"against"` // nil for the first version
	Mode           string        `json:"mode"`    // report or enforce
	Status         string        `json:"status"`  // queued, running, decided, superseded or cancelled
	Verdict        *string       `json:"verdict"` // pass, block, inconclusive or skipped; nil until it is decided
	Reason         string        `json:"reason"`
	Attempt        int           `json:"attempt"`  // 1, 2, ...; trials of all attempts count
	Previous       []string      `json:"previous"` // ids of the gates of earlier attempts
	Suites         []GateSuite   `json:"suites"`
	Floors         []GateFloor   `json:"floors"`
	FalseBlockRate float64       `json:"false_block_rate"`
	Override       *GateOverride `json:"override"`
	// PullRequest is the one whose head was tried instead of a version.
	PullRequest *GatePullRequest `json:"pull_request,omitempty"`
	CostUSD     *float64         `json:"cost_usd"`
	CreatedAt   time.Time        `json:"created_at"`
	DecidedAt   *time.Time       `json:"decided_at"`
}

// A GatePullRequest is a pull request whose head a gate tried. Nothing publishes it.
type GatePullRequest struct {
	Number int64  `json:"number"`
	Commit string `json:"commit"`
	URL    string `json:"url"`
}

// A GateSuite is what the trials of a suite showed.
type GateSuite struct {
	SuiteID   string          `json:"suite_id"`
	RunIDs    []string        `json:"run_ids"`
	Cases     int             `json:"cases"`
	Better    []string        `json:"better"`
	Worse     []string        `json:"worse"`
	Unchanged int             `json:"unchanged"`
	Errors    int             `json:"errors"`
	Broken    []string        `json:"broken"`
	Score     *GateScore      `json:"score"` // nil from older servers
	SignTestP *float64        `json:"sign_test_p"`
	Confirmed json.RawMessage `json:"confirmed"`
	AdjustedP *float64        `json:"adjusted_p"`
	NoSkillP  *float64        `json:"no_skill_p"`
	// NoSkillAdjustedP is NoSkillP in the family of AdjustedP.
	NoSkillAdjustedP *float64    `json:"no_skill_adjusted_p"`
	Interval         *[2]float64 `json:"interval"`
	Results          []GateCase  `json:"results"` // the cases that changed
	// Changes say who changed the suite since the last gate of a version, oldest first.
	Changes []GateSuiteChange `json:"changed_since_last_gate"`
}

// A GateScore is the mean score of the cases on both versions.
type GateScore struct {
	New        float64    `json:"new"`
	Current    float64    `json:"current"`
	Difference float64    `json:"difference"`
	Interval   [2]float64 `json:"interval"`
}

// A GateSuiteChange is one change of a suite, with the names of its cases.
type GateSuiteChange struct {
	By       string    `json:"by"`    // id of a user
	Email    string    `json:"email"` // empty if they are gone
	At       time.Time `json:"at"`
	Added    []string  `json:"added"`
	Removed  []string  `json:"removed"`
	Changed  []string  `json:"changed"`
	Settings []string  `json:"settings"` // of the suite, e.g. resource_limits_json
}

// A GateCase has the decided trials of a case on both versions.
type GateCase struct {
	Case         string      `json:"case"`
	Name         string      `json:"name"`
	New          GateTrials  `json:"new"`
	Current      GateTrials  `json:"current"`
	FreshNew     *GateTrials `json:"fresh_new"` // of the second step
	FreshCurrent *GateTrials `json:"fresh_current"`
}

// GateTrials counts decided trials.
type GateTrials struct {
	Passed int `json:"passed"`
	Tried  int `json:"tried"`
}

// A GateFloor is an absolute demand of the policy.
type GateFloor struct {
	Name   string   `json:"name"`
	Want   string   `json:"want"`
	Got    string   `json:"got"`
	Value  *float64 `json:"value"`
	Passed bool     `json:"passed"`
}

// A GateOverride is a person's decision against a verdict.
type GateOverride struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

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

// Released is an entry after the state of one of its versions has changed.
type Released struct {
	Entry   Entry   `json:"entry"`
	Version Version `json:"version"`
}

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
