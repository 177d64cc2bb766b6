package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// An ImproveRun searches for a better description of a skill.
type ImproveRun struct {
	ID      string      `json:"id"`
	SuiteID string      `json:"suite_id"`
	Subject EvalSubject `json:"subject"`
	// Status is queued, running, succeeded, no_winner, failed_transient,
	// failed_terminal or cancelled.
	Status        string             `json:"status"`
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

// Over reports whether the run has ended.
func (r ImproveRun) Over() bool { return r.Status != "queued" && r.Status != "running" }

// ImproveCases counts the cases of the suite.
type ImproveCases struct {
	Train   int `json:"train"`
	Holdout int `json:"holdout"`
	LeftOut int `json:"left_out"`
}

// An ImproveScore is the score of a description on one side of the split.
type ImproveScore struct {
	Passed   int         `json:"passed"`
	Cases    int         `json:"cases"` // those with a verdict
	Rate     *float64    `json:"rate"`
	Interval *[2]float64 `json:"interval,omitempty"` // of held-out queries
}

// ImproveCurrent is the skill's current description with its scores, which are nil
// until they are known.
type ImproveCurrent struct {
	Description string        `json:"description"`
	Train       *ImproveScore `json:"train"`
	Holdout     *ImproveScore `json:"holdout"`
	Errors      int           `json:"errors"`
}

// An ImproveIteration is one candidate description.
type ImproveIteration struct {
	N           int           `json:"n"`
	Description *string       `json:"description"` // nil if the model wrote nothing usable
	Reason      string        `json:"reason"`
	Train       *ImproveScore `json:"train"`
	Holdout     *ImproveScore `json:"holdout"`
	Errors      int           `json:"errors"`
	Problem     *string       `json:"problem"` // why it cannot win
}

// An ImproveWinner is the description that beat the current one.
type ImproveWinner struct {
	N                int         `json:"n"`
	Description      string      `json:"description"`
	PassRate         *float64    `json:"pass_rate"` // of the held-out queries
	PassRateInterval *[2]float64 `json:"pass_rate_interval"`
}

// A NewImproveRun describes an improve run to start. Exactly one of SourceID and
// EntryID is required.
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

// StartImproveRun starts an improve run. A suite with too few trigger queries is
// an *Error with the status 409.
func (c *Client) StartImproveRun(ctx context.Context, n NewImproveRun) (ImproveRun, error) {
	var out improveAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: improvePath, body: encode(n)}, &out)
	return out.Run, err
}

// ImproveRun returns an improve run.
func (c *Client) ImproveRun(ctx context.Context, id string) (ImproveRun, error) {
	var out improveAnswer
	err := c.get(ctx, improvePath+"/"+url.PathEscape(id), nil, &out)
	return out.Run, err
}

// An ImproveRunFilter selects improve runs; an empty field selects all.
type ImproveRunFilter struct {
	SuiteID string
	Status  string
}

// ImproveRuns lists the newest improve runs, newest first.
func (c *Client) ImproveRuns(ctx context.Context, f ImproveRunFilter) ([]ImproveRun, error) {
	var out struct {
		Runs []ImproveRun `json:"improve_runs"`
	}
	err := c.get(ctx, improvePath, newQuery(map[string]string{"suite_id": f.SuiteID, "status": f.Status}), &out)
	return out.Runs, err
}

// CancelImproveRun cancels an improve run; finished iterations are kept.
func (c *Client) CancelImproveRun(ctx context.Context, id string) (ImproveRun, error) {
	var out improveAnswer
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: improvePath + "/" + url.PathEscape(id) + "/cancel", idempotent: true,
	}, &out)
	return out.Run, err
}

// The waits between two polls of an improve run.
const (
	firstPollWait = 100 * time.Millisecond
	maxPollWait   = 2 * time.Second
)

// WatchImproveRun polls an improve run until it has ended, calls handle with every
// state before that, and returns the run.
func (c *Client) WatchImproveRun(ctx context.Context, id string, handle func(ImproveRun)) (ImproveRun, error) {
	for wait := firstPollWait; ; wait = min(2*wait, maxPollWait) {
		run, err := c.ImproveRun(ctx, id)
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
