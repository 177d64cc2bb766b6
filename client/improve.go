package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// An ImproveRun looks for a better description of a skill.
type ImproveRun struct {
	ID            string             `json:"id"`
	SuiteID       string             `json:"suite_id"`
	Subject       EvalSubject        `json:"subject"`
	Status        string             `json:"status"` // queued, running, succeeded, no_winner, failed_transient, failed_terminal or cancelled
	MaxIterations int                `json:"max_iterations"`
	Holdout       float64            `json:"holdout"`
	Seed          int64              `json:"seed"`
	Judge         EvalJudge          `json:"judge"`
	Progress      EvalProgress       `json:"progress"`
	Cases         ImproveCases       `json:"cases"`
	Current       ImproveCurrent     `json:"current"`
	Iterations    []ImproveIteration `json:"iterations"`
	Winner        *ImproveWinner     `json:"winner"`
	ProposalID    *string            `json:"proposal_id"`
	Error         *string            `json:"error"`
	CreatedAt     time.Time          `json:"created_at"`
	StartedAt     *time.Time         `json:"started_at"`
	FinishedAt    *time.Time         `json:"finished_at"`
}

// Over reports whether nothing more comes of the run.
func (r ImproveRun) Over() bool { return r.Status != "queued" && r.Status != "running" }

// ImproveCases counts the cases of the suite.
type ImproveCases struct {
	Train   int `json:"train"`
	Holdout int `json:"holdout"`
	LeftOut int `json:"left_out"`
}

// An ImproveScore is how a description did on one side of the split.
type ImproveScore struct {
	Passed   int         `json:"passed"`
	Cases    int         `json:"cases"` // those with a verdict
	Rate     *float64    `json:"rate"`
	Interval *[2]float64 `json:"interval,omitempty"` // of held-out queries
}

// ImproveCurrent is how the skill's own description did; scores are nil until
// there are some.
type ImproveCurrent struct {
	Description string        `json:"description"`
	Train       *ImproveScore `json:"train"`
	Holdout     *ImproveScore `json:"holdout"`
	Errors      int           `json:"errors"`
}

// An ImproveIteration is a description that was tried.
type ImproveIteration struct {
	N           int           `json:"n"`
	Description *string       `json:"description"` // nil if nothing usable was written
	Reason      string        `json:"reason"`
	Train       *ImproveScore `json:"train"`
	Holdout     *ImproveScore `json:"holdout"`
	Errors      int           `json:"errors"`
	Problem     *string       `json:"problem"` // why it cannot win
}

// An ImproveWinner is the description that is better.
type ImproveWinner struct {
	N                int         `json:"n"`
	Description      string      `json:"description"`
	PassRate         *float64    `json:"pass_rate"` // of the held-out queries
	PassRateInterval *[2]float64 `json:"pass_rate_interval"`
}

// A NewImproveRun is an improve run to be started, of exactly one of SourceID
// and EntryID.
type NewImproveRun struct {
	SourceID      string  `json:"source_id,omitempty"`
	EntryID       string  `json:"entry_id,omitempty"`
	SuiteID       string  `json:"suite_id"`
	MaxIterations int     `json:"max_iterations,omitempty"` // 3 when 0
	Holdout       float64 `json:"holdout,omitempty"`        // 0.4 when 0
}

type improveAnswer struct {
	Run ImproveRun `json:"improve_run"`
}

const improvePath = "/api/v1/improve-runs"

// StartImproveRun starts an improve run. A suite that has not the queries for
// it is an *Error with the status 409.
func (c *Client) StartImproveRun(ctx context.Context, n NewImproveRun) (ImproveRun, error) {
	var out improveAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: improvePath, body: encode(n)}, &out)
	return out.Run, err
}

// ImproveRun returns an improve run.
func (c *Client) ImproveRun(ctx context.Context, id string) (ImproveRun, error) {
	var out improveAnswer
	_, err := c.do(ctx, call{method: http.MethodGet, path: improvePath + "/" + url.PathEscape(id), repeatable: true}, &out)
	return out.Run, err
}

// An ImproveRunFilter chooses improve runs; empty fields choose all.
type ImproveRunFilter struct {
	SuiteID string
	Status  string
}

// ImproveRuns lists the newest improve runs, newest first.
func (c *Client) ImproveRuns(ctx context.Context, f ImproveRunFilter) ([]ImproveRun, error) {
	var out struct {
		Runs []ImproveRun `json:"improve_runs"`
	}
	query := url.Values{}
	if f.SuiteID != "" {
		query.Set("suite_id", f.SuiteID)
	}
	if f.Status != "" {
		query.Set("status", f.Status)
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: improvePath, query: query, repeatable: true}, &out)
	return out.Runs, err
}

// CancelImproveRun ends an improve run; what it has found is kept.
func (c *Client) CancelImproveRun(ctx context.Context, id string) (ImproveRun, error) {
	var out improveAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: improvePath + "/" + url.PathEscape(id) + "/cancel", repeatable: true}, &out)
	return out.Run, err
}

// The waits between two looks at an improve run.
const (
	firstLook   = 100 * time.Millisecond
	longestLook = 2 * time.Second
)

// WatchImproveRun tells how an improve run gets on until it is over, and
// returns it.
func (c *Client) WatchImproveRun(ctx context.Context, id string, tell func(ImproveRun)) (ImproveRun, error) {
	for wait := firstLook; ; wait = min(2*wait, longestLook) {
		run, err := c.ImproveRun(ctx, id)
		if err != nil {
			return run, fmt.Errorf("watch improve run %s: %w", id, err)
		}
		if run.Over() {
			return run, nil
		}
		tell(run)
		select {
		case <-ctx.Done():
			return run, ctx.Err()
		case <-time.After(wait):
		}
	}
}
