package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/whetstone-dev/whetstone/client/api"
)

type setAnswer struct {
	Set api.Set `json:"set"`
}

const setsPath = "/api/v1/sets"

// A SetFilter selects sets; the zero value selects all.
type SetFilter struct {
	Name       string // the one of that name
	Mine       bool   // those of the caller's teams
	Repository string // those for checkouts of it, e.g. "acme/docs"
}

// Sets lists the organisation's sets by name.
func (c *Client) Sets(ctx context.Context, f SetFilter) (all []api.Set, err error) {
	query := newQuery(map[string]string{"name": f.Name, "repository": f.Repository, "limit": "100"})
	if f.Mine {
		query.Set("mine", "true")
	}
	for {
		var page struct {
			Sets       []api.Set `json:"sets"`
			NextCursor *string   `json:"next_cursor"`
		}
		if err := c.get(ctx, setsPath, query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Sets...)
		if page.NextCursor == nil {
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// CreateSet makes a set. A name that is taken is an *Error with the status 409.
func (c *Client) CreateSet(ctx context.Context, n api.NewSet) (api.Set, error) {
	var out setAnswer
	err := c.Call(ctx, http.MethodPost, setsPath, n, &out)
	return out.Set, err
}

// Set returns a set.
func (c *Client) Set(ctx context.Context, id string) (api.Set, error) {
	var out setAnswer
	err := c.get(ctx, setsPath+"/"+url.PathEscape(id), nil, &out)
	return out.Set, err
}

// ReplaceSet gives a set what n describes. Without Owners, those that it has stay.
func (c *Client) ReplaceSet(ctx context.Context, id string, n api.NewSet) (api.Set, error) {
	var out setAnswer
	err := c.Call(ctx, http.MethodPut, setsPath+"/"+url.PathEscape(id), n, &out)
	return out.Set, err
}

// DeleteSet deletes a set. Tokens that are bound to it alone open nothing from then on.
func (c *Client) DeleteSet(ctx context.Context, id string) error {
	return c.Call(ctx, http.MethodDelete, setsPath+"/"+url.PathEscape(id), nil, nil)
}

// SetCoverage returns who of a set's teams has it: up to limit machines after a cursor, which
// is NextCursor of the answer before, or empty.
func (c *Client) SetCoverage(ctx context.Context, id, cursor string, limit int) (out api.SetCoverage, err error) {
	query := newQuery(map[string]string{"cursor": cursor})
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return out, c.get(ctx, setsPath+"/"+url.PathEscape(id)+"/coverage", query, &out)
}
