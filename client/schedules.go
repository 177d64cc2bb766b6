package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client/api"
)

type scheduleAnswer struct {
	Schedule api.EvalSchedule `json:"schedule"`
}

const schedulesPath = "/api/v1/eval-schedules"

func schedulePath(id string) string { return schedulesPath + "/" + url.PathEscape(id) }

// A ScheduleFilter selects schedules; an empty field selects all.
type ScheduleFilter struct {
	SuiteID string
	EntryID string
}

// Schedules lists the organisation's schedules, newest first.
func (c *Client) Schedules(ctx context.Context, f ScheduleFilter) (all []api.EvalSchedule, err error) {
	query := newQuery(map[string]string{"suite_id": f.SuiteID, "entry_id": f.EntryID, "limit": "100"})
	for {
		var page struct {
			Schedules  []api.EvalSchedule `json:"schedules"`
			NextCursor *string            `json:"next_cursor"`
		}
		if err := c.get(ctx, schedulesPath, query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Schedules...)
		if page.NextCursor == nil {
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// CreateSchedule makes a schedule, whose first run is at its first due time.
func (c *Client) CreateSchedule(ctx context.Context, n api.NewEvalSchedule) (api.EvalSchedule, error) {
	var out scheduleAnswer
	err := c.Call(ctx, http.MethodPost, schedulesPath, n, &out)
	return out.Schedule, err
}

// Schedule returns a schedule with its newest runs.
func (c *Client) Schedule(ctx context.Context, id string) (api.EvalScheduleDetail, error) {
	var out struct {
		Schedule api.EvalScheduleDetail `json:"schedule"`
	}
	err := c.get(ctx, schedulePath(id), nil, &out)
	return out.Schedule, err
}

// UpdateSchedule changes, pauses or resumes a schedule.
func (c *Client) UpdateSchedule(ctx context.Context, id string, change api.EvalScheduleChange) (api.EvalSchedule, error) {
	var out scheduleAnswer
	err := c.Call(ctx, http.MethodPatch, schedulePath(id), change, &out)
	return out.Schedule, err
}

// DeleteSchedule deletes a schedule; its runs stay.
func (c *Client) DeleteSchedule(ctx context.Context, id string) error {
	return c.Call(ctx, http.MethodDelete, schedulePath(id), nil, nil)
}

// RunSchedule starts a run of a schedule now.
func (c *Client) RunSchedule(ctx context.Context, id string) (api.EvalReport, error) {
	var out struct {
		Run api.EvalReport `json:"run"`
	}
	err := c.Call(ctx, http.MethodPost, schedulePath(id)+"/run", nil, &out)
	return out.Run, err
}
