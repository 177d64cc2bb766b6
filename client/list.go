package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strconv"
)

// List reads a list that the API has in pages to its end, 100 items at a time unless the
// query says otherwise. field names it in the answer, e.g. "skills" in
// {"skills": [...], "pagination": {"total": 120}}. The query may be nil.
func List[T any](ctx context.Context, c *Client, path, field string, query url.Values) ([]T, error) {
	all, query := []T{}, maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	if !query.Has("per_page") {
		query.Set("per_page", "100")
	}
	for page := 1; ; page++ {
		query.Set("page", strconv.Itoa(page))
		var answer map[string]json.RawMessage
		if err := c.get(ctx, path, query, &answer); err != nil {
			return nil, err
		}
		var items []T
		var pagination struct {
			Total int `json:"total"`
		}
		if err := json.Unmarshal(answer[field], &items); err != nil {
			return nil, fmt.Errorf("%s: the field %s of the answer is not valid: %w", path, field, err)
		}
		if err := json.Unmarshal(answer["pagination"], &pagination); err != nil {
			return nil, fmt.Errorf("%s: the pagination of the answer is not valid: %w", path, err)
		}
		all = append(all, items...)
		// An empty page ends the list, too: it may have become shorter meanwhile.
		if len(items) == 0 || len(all) >= pagination.Total {
			return all, nil
		}
	}
}

// newQuery returns the query parameters that are not empty.
func newQuery(params map[string]string) url.Values {
	query := url.Values{}
	for name, value := range params {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}
