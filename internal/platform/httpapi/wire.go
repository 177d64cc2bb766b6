package httpapi

import (
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Time is a time in JSON: RFC 3339 in UTC with milliseconds. Any offset is
// accepted.
type Time = api.Time

// NullTime converts a time that may be missing, which is null in JSON.
func NullTime(t *time.Time) *Time { return (*Time)(t) }

// documentedTime is the schema of Time, whose package does not know of schemas.
type documentedTime struct{}

// Schema describes the time in the OpenAPI document.
func (documentedTime) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "string", Format: "date-time", Examples: []any{"2026-01-02T03:04:05.678Z"}}
}

// Between parses the bounds of a list by time: RFC 3339 or a day, e.g.
// "2026-01-02". An empty one is no bound.
func Between(since, until string) (from, to *time.Time, err error) {
	var issues []fault.Issue
	for _, given := range []struct {
		name, text string
		bound      **time.Time
	}{{"since", since, &from}, {"until", until, &to}} {
		if given.text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, given.text)
		if err != nil {
			t, err = time.Parse(time.DateOnly, given.text)
		}
		if err != nil {
			issues = append(issues, fault.At(given.name, "%s must be an RFC 3339 time or a day like 2026-01-02", given.name))
			continue
		}
		*given.bound = &t
	}
	if len(issues) > 0 {
		return nil, nil, fault.Issues(issues...)
	}
	return from, to, nil
}

// Page is the input of a paginated list.
type Page struct {
	Page    int `query:"page" default:"1" minimum:"1" maximum:"1000000" doc:"The page, from 1."`
	PerPage int `query:"per_page" default:"20" minimum:"1" maximum:"100" doc:"Items on a page."`
}

// Offset is the number of items before the page.
func (p Page) Offset() int { return (p.Page - 1) * p.PerPage }

// Rows is the page in the list's own order.
func (p Page) Rows() store.Page { return store.Page{Limit: p.PerPage, Offset: p.Offset()} }

// Pagination describes the page of a list in an answer.
type Pagination struct {
	Page    int `json:"page" example:"1"`
	PerPage int `json:"per_page" example:"20"`
	Total   int `json:"total" example:"42"`
}

// Of returns the answer's pagination for a list of that length.
func (p Page) Of(total int) Pagination {
	return Pagination{Page: p.Page, PerPage: p.PerPage, Total: total}
}

// byteSize formats a limit, e.g. "1 MiB".
func byteSize(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
