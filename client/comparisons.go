package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
)

type comparisonAnswer struct {
	Comparison api.Comparison `json:"comparison"`
}

const comparisonsPath = "/api/v1/comparisons"

// Compare starts a comparison. An arm that can't run is an *Error with the status 400 that
// names it.
func (c *Client) Compare(ctx context.Context, n api.NewComparison) (api.Comparison, error) {
	var out comparisonAnswer
	n.Estimate = false
	err := c.Call(ctx, http.MethodPost, comparisonsPath, n, &out)
	return out.Comparison, err
}

// EstimateComparison returns what a comparison would take, and starts nothing.
func (c *Client) EstimateComparison(ctx context.Context, n api.NewComparison) (api.ComparisonEstimate, error) {
	var out struct {
		Estimate api.ComparisonEstimate `json:"estimate"`
	}
	n.Estimate = true
	err := c.Call(ctx, http.MethodPost, comparisonsPath, n, &out)
	return out.Estimate, err
}

// Comparison returns a comparison.
func (c *Client) Comparison(ctx context.Context, id string) (api.Comparison, error) {
	var out comparisonAnswer
	err := c.get(ctx, comparisonsPath+"/"+url.PathEscape(id), nil, &out)
	return out.Comparison, err
}

// A ComparisonFilter selects comparisons; an empty field selects all.
type ComparisonFilter struct {
	SuiteID string
	EntryID string
	Status  string
}

// Comparisons lists the newest comparisons, newest first.
func (c *Client) Comparisons(ctx context.Context, f ComparisonFilter) ([]api.Comparison, error) {
	var out struct {
		Comparisons []api.Comparison `json:"comparisons"`
	}
	query := newQuery(map[string]string{"suite_id": f.SuiteID, "entry_id": f.EntryID, "status": f.Status})
	return out.Comparisons, c.get(ctx, comparisonsPath, query, &out)
}

// CancelComparison cancels a comparison; its runs keep the trials that are made.
func (c *Client) CancelComparison(ctx context.Context, id string) (api.Comparison, error) {
	var out comparisonAnswer
	err := c.Call(ctx, http.MethodPost, comparisonsPath+"/"+url.PathEscape(id)+"/cancel", nil, &out)
	return out.Comparison, err
}

// WatchComparison polls a comparison until it has ended, and calls handle with every state.
func (c *Client) WatchComparison(ctx context.Context, id string, handle func(api.Comparison)) (api.Comparison, error) {
	for wait := firstPollWait; ; wait = min(2*wait, maxPollWait) {
		got, err := c.Comparison(ctx, id)
		if err != nil {
			return got, fmt.Errorf("watch comparison %s: %w", id, err)
		}
		handle(got)
		if got.Over() {
			return got, nil
		}
		select {
		case <-ctx.Done():
			return got, ctx.Err()
		case <-time.After(wait):
		}
	}
}
