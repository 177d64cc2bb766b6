package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
)

type improveAnswer struct {
	Run api.ImproveRun `json:"improve_run"`
}

const improvePath = "/api/v1/improve-runs"

// StartImproveRun starts an improve run. A suite with too few cases is an *Error with the
// status 409.
func (c *Client) StartImproveRun(ctx context.Context, n api.NewImproveRun) (api.ImproveRun, error) {
	var out improveAnswer
	err := c.Call(ctx, http.MethodPost, improvePath, n, &out)
	return out.Run, err
}

// EstimateImproveRun returns what an improve run would need.
func (c *Client) EstimateImproveRun(ctx context.Context, n api.NewImproveRun) (out api.ImproveEstimate, err error) {
	return out, c.Call(ctx, http.MethodPost, improvePath+"/estimate", n, &out)
}

// ImproveRun returns an improve run.
func (c *Client) ImproveRun(ctx context.Context, id string) (api.ImproveRun, error) {
	var out improveAnswer
	err := c.get(ctx, improvePath+"/"+url.PathEscape(id), nil, &out)
	return out.Run, err
}

// An ImproveFilter selects improve runs; an empty field selects all.
type ImproveFilter struct {
	SuiteID string
	Status  string
}

// ImproveRuns lists the newest improve runs, newest first.
func (c *Client) ImproveRuns(ctx context.Context, f ImproveFilter) ([]api.ImproveRun, error) {
	var out struct {
		Runs []api.ImproveRun `json:"improve_runs"`
	}
	err := c.get(ctx, improvePath, newQuery(map[string]string{"suite_id": f.SuiteID, "status": f.Status}), &out)
	return out.Runs, err
}

// CancelImproveRun cancels an improve run; finished iterations are kept.
func (c *Client) CancelImproveRun(ctx context.Context, id string) (api.ImproveRun, error) {
	var out improveAnswer
	err := c.Call(ctx, http.MethodPost, improvePath+"/"+url.PathEscape(id)+"/cancel", nil, &out)
	return out.Run, err
}

// The waits between two polls of an improve run.
const (
	firstPollWait = 100 * time.Millisecond
	maxPollWait   = 2 * time.Second
)

// WatchImproveRun polls an improve run until it has ended, calls handle with every
// state before that, and returns the run.
func (c *Client) WatchImproveRun(ctx context.Context, id string, handle func(api.ImproveRun)) (api.ImproveRun, error) {
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

// ImprovePolicy returns whether a skill, by its id or name, is improved at night without a person.
func (c *Client) ImprovePolicy(ctx context.Context, idOrName string) (out api.ImprovePolicy, err error) {
	return out, c.get(ctx, skillPath(idOrName)+"/improve-policy", nil, &out)
}

// SetImprovePolicy sets it. It needs the permission admin.
func (c *Client) SetImprovePolicy(ctx context.Context, skill string, n api.NewImprovePolicy) (out api.ImprovePolicy, err error) {
	return out, c.Call(ctx, http.MethodPut, skillPath(skill)+"/improve-policy", n, &out)
}
