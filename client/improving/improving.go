// Package improving calls the routes by which skills become better: improve runs,
// and the proposals that come of them and of signals.
package improving

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/whetstone-dev/whetstone/client"
)

// A Client calls the API with the key of another one.
type Client struct{ *client.Client }

// A Run is an improve run: it searches for a better SKILL.md.
type Run struct {
	ID      string             `json:"id"`
	SuiteID string             `json:"suite_id"`
	Subject client.EvalSubject `json:"subject"`
	// Status is queued, running, succeeded, no_winner, failed_transient,
	// failed_terminal or cancelled.
	Status        string              `json:"status"`
	MaxIterations int                 `json:"max_iterations"`
	Holdout       float64             `json:"holdout"`
	Seed          int64               `json:"seed"`
	Judge         client.EvalJudge    `json:"judge"`
	Progress      client.EvalProgress `json:"progress"`
	Cases         Cases               `json:"cases"`
	Splits        *Splits             `json:"splits"` // nil from servers whose runs had two parts
	Target        string              `json:"target"`
	MaxCostUSD    *float64            `json:"max_cost_usd"`
	MaxCalls      *int64              `json:"max_calls"`
	MaxMinutes    *int64              `json:"max_minutes"`
	Proof         *Proof              `json:"proof"`
	Cost          *client.EvalCost    `json:"cost"`
	Current       Current             `json:"current"`
	Iterations    []Iteration         `json:"iterations"`
	Winner        *Winner             `json:"winner"`
	StoppedBy     *string             `json:"stopped_by"` // max_calls, max_iterations, max_minutes or max_cost_usd; nil if no limit ended it
	ProposalID    *string             `json:"proposal_id"`
	Error         *string             `json:"error"`
	CreatedAt     time.Time           `json:"created_at"`
	StartedAt     *time.Time          `json:"started_at"`
	FinishedAt    *time.Time          `json:"finished_at"`
}

// Over reports whether the run has ended.
func (r Run) Over() bool { return r.Status != "queued" && r.Status != "running" }

// Cases counts the cases of the suite.
type Cases struct {
	Train   int `json:"train"`
	Holdout int `json:"holdout"`
	LeftOut int `json:"left_out"`
}

// A Score is that of a candidate on one part of the suite.
type Score struct {
	Passed   int         `json:"passed"`
	Cases    int         `json:"cases"` // those with a verdict
	Rate     *float64    `json:"rate"`
	Interval *[2]float64 `json:"interval,omitempty"` // of held-out queries
}

// Current is the current version with its scores, which are nil
// until they are known.
type Current struct {
	Description string `json:"description"`
	Train       *Score `json:"train"`
	Holdout     *Score `json:"holdout"`
	Errors      int    `json:"errors"`
}

// An Iteration is one candidate.
type Iteration struct {
	N           int     `json:"n"`
	Description *string `json:"description"` // nil if nothing usable was written
	Reason      string  `json:"reason"`
	Train       *Score  `json:"train"`
	Holdout     *Score  `json:"holdout"`
	Errors      int     `json:"errors"`
	Problem     *string `json:"problem"` // why it cannot win
	// Parent is the iteration that Edits made it from; 0 is the current version.
	Parent  int    `json:"parent"`
	Partner *int   `json:"partner"` // the other one that it merges
	Edits   []Edit `json:"edits"`
}

// A Winner is the candidate that beat the current version.
type Winner struct {
	N                int         `json:"n"`
	Description      string      `json:"description"`
	PassRate         *float64    `json:"pass_rate"`
	PassRateInterval *[2]float64 `json:"pass_rate_interval"`
}

// Splits are the sizes of the three parts of a suite: what candidates are written
// from, chosen by, and proved on.
type Splits struct {
	Train     int `json:"train"`
	Selection int `json:"selection"`
	Proof     int `json:"proof"`
}

// A Proof compares the winner with the current version, on cases that neither wrote
// nor chose it.
type Proof struct {
	Cases    int         `json:"cases"`
	Current  float64     `json:"current"` // share of the trials that pass
	Winner   float64     `json:"winner"`
	Better   int         `json:"better"` // cases
	Worse    int         `json:"worse"`
	P        *float64    `json:"p"`
	Interval *[2]float64 `json:"interval"` // 95 %, of the difference
}

// A NewRun describes an improve run to start. Exactly one of SourceID and EntryID is
// required.
type NewRun struct {
	SourceID      string   `json:"source_id,omitempty"`
	EntryID       string   `json:"entry_id,omitempty"`
	SuiteID       string   `json:"suite_id"`
	Target        string   `json:"target,omitempty"`         // description (when empty), body or both
	MaxIterations int      `json:"max_iterations,omitempty"` // 3 when 0
	Holdout       float64  `json:"holdout,omitempty"`        // 0.4 when 0
	MaxCostUSD    *float64 `json:"max_cost_usd,omitempty"`
	MaxCalls      *int64   `json:"max_calls,omitempty"`
	MaxMinutes    *int64   `json:"max_minutes,omitempty"` // longest time from its start
}

type runAnswer struct {
	Run Run `json:"improve_run"`
}

const runsPath = "/api/v1/improve-runs"

// Start starts an improve run. A suite with too few cases is a *client.Error with the
// status 409.
func (c Client) Start(ctx context.Context, n NewRun) (Run, error) {
	var out runAnswer
	err := c.Call(ctx, http.MethodPost, runsPath, n, &out)
	return out.Run, err
}

// An Estimate is what an improve run would need, if it makes all of its iterations.
type Estimate struct {
	Trials       int      `json:"trials"`
	Calls        int64    `json:"calls"`
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	USD          *float64 `json:"estimate_usd"` // nil if a price is unknown
	Measured     bool     `json:"measured"`     // by the last runs of the suite
}

// Estimate returns what a run would need.
func (c Client) Estimate(ctx context.Context, n NewRun) (out Estimate, err error) {
	err = c.Call(ctx, http.MethodPost, runsPath+"/estimate", n, &out)
	return out, err
}

// Run returns an improve run.
func (c Client) Run(ctx context.Context, id string) (Run, error) {
	var out runAnswer
	err := c.Call(ctx, http.MethodGet, runsPath+"/"+url.PathEscape(id), nil, &out)
	return out.Run, err
}

// A RunFilter selects improve runs; an empty field selects all.
type RunFilter struct {
	SuiteID string
	Status  string
}

// Runs lists the newest improve runs, newest first.
func (c Client) Runs(ctx context.Context, f RunFilter) ([]Run, error) {
	var out struct {
		Runs []Run `json:"improve_runs"`
	}
	err := c.Call(ctx, http.MethodGet, withQuery(runsPath, map[string]string{"suite_id": f.SuiteID, "status": f.Status}), nil, &out)
	return out.Runs, err
}

// withQuery adds the parameters that are not empty to a path.
func withQuery(path string, params map[string]string) string {
	query := url.Values{}
	for name, value := range params {
		if value != "" {
			query.Set(name, value)
		}
	}
	return path + "?" + query.Encode()
}

// Cancel cancels an improve run; finished iterations are kept.
func (c Client) Cancel(ctx context.Context, id string) (Run, error) {
	var out runAnswer
	err := c.Call(ctx, http.MethodPost, runsPath+"/"+url.PathEscape(id)+"/cancel", nil, &out)
	return out.Run, err
}

// The waits between two polls of an improve run.
const (
	firstPollWait = 100 * time.Millisecond
	maxPollWait   = 2 * time.Second
)

// Watch polls an improve run until it has ended, calls handle with every
// state before that, and returns the run.
func (c Client) Watch(ctx context.Context, id string, handle func(Run)) (Run, error) {
	for wait := firstPollWait; ; wait = min(2*wait, maxPollWait) {
		run, err := c.Run(ctx, id)
		if err != nil {
			return run, fmt.Errorf("watch improve run %s: %w", id, err)
		}
		if run.Over() {
			return run, nil
		}
		handle(run)
		select {
		case <-ctx.Done():
			return run, ctx.Err()
		case <-time.After(wait):
		}
	}
}
