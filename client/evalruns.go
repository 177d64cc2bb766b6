package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
)

type runAnswer struct {
	Run api.EvalReport `json:"run"`
}

func runPath(id string) string { return "/api/v1/eval-runs/" + url.PathEscape(id) }

// StartEvalRun starts a run of a suite. A suite that is not runnable is an *Error
// with the status 409.
func (c *Client) StartEvalRun(ctx context.Context, suiteID string, n api.NewEvalRun) (api.EvalReport, error) {
	var out runAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: suitePath(suiteID) + "/runs", body: encode(n)}, &out)
	return out.Run, err
}

// EstimateEvalRun estimates what a run of a suite would cost, before it is started.
func (c *Client) EstimateEvalRun(ctx context.Context, suiteID string, n api.NewEvalRun) (out api.EvalEstimate, err error) {
	query := url.Values{}
	if n.Agent != nil {
		query.Set("agent", n.Agent.Name)
		query.Set("model", n.Agent.Model)
	}
	if n.Trials > 0 {
		query.Set("trials", strconv.Itoa(n.Trials))
	}
	if n.Baseline != "" {
		query.Set("baseline", n.Baseline)
	}
	return out, c.get(ctx, suitePath(suiteID)+"/estimate", query, &out)
}

// EvalRun returns a run with its cases.
func (c *Client) EvalRun(ctx context.Context, id string) (api.EvalReport, error) {
	var out runAnswer
	err := c.get(ctx, runPath(id), nil, &out)
	return out.Run, err
}

// EvalTrial returns the trial of a run's case with all its events; variant is skill,
// no_skill or previous, and n counts from 1. One that does not exist is an *Error
// with the status 404.
func (c *Client) EvalTrial(ctx context.Context, runID, caseID, variant string, n int) (out api.EvalTrialDetail, err error) {
	query := url.Values{"case_id": {caseID}, "variant": {variant}}
	for {
		var page struct {
			Trial api.EvalTrialDetail `json:"trial"`
			Next  *string             `json:"next_cursor"`
		}
		if err := c.get(ctx, runPath(runID)+"/trials/"+strconv.Itoa(n), query, &page); err != nil {
			return out, err
		}
		page.Trial.Session.Events = append(out.Session.Events, page.Trial.Session.Events...)
		out = page.Trial
		if page.Next == nil {
			return out, nil
		}
		query.Set("cursor", *page.Next)
	}
}

// EvalRuns lists the newest runs of a suite without their cases, newest first.
func (c *Client) EvalRuns(ctx context.Context, suiteID string) ([]api.EvalRun, error) {
	var out struct {
		Runs []api.EvalRun `json:"runs"`
	}
	err := c.get(ctx, suitePath(suiteID)+"/runs", nil, &out)
	return out.Runs, err
}

// CancelEvalRun cancels a run; finished trials are kept.
func (c *Client) CancelEvalRun(ctx context.Context, id string) (api.EvalReport, error) {
	var out runAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: runPath(id) + "/cancel", idempotent: true}, &out)
	return out.Run, err
}

// An EvalEvent is a change of a run. Which fields are set depends on Name: Case
// and Progress for "case", Progress for "progress", Run for "status".
type EvalEvent struct {
	ID       string
	Name     string // case, progress or status
	Case     *api.EvalCase
	Progress *api.EvalProgress
	Run      *api.EvalRun
}

// WatchEvalRun calls handle with every event of a run, from its beginning to its
// end, and returns the run with its cases. A broken connection is resumed after
// the last event (Last-Event-ID).
func (c *Client) WatchEvalRun(ctx context.Context, id string, handle func(EvalEvent)) (api.EvalReport, error) {
	w := &eventStream{client: c, path: runPath(id) + "/events", handle: handle}
	for !w.over {
		seen := w.last
		err := retry(ctx, true, func() error { return w.follow(ctx) })
		// A connection that delivered something before it broke starts a new count of
		// retries.
		if err != nil && (w.last == seen || ctx.Err() != nil) {
			return api.EvalReport{}, fmt.Errorf("watch run %s: %w", id, err)
		}
	}
	return c.EvalRun(ctx, id)
}

// An eventStream is a stream of server-sent events (SSE) that can be resumed.
type eventStream struct {
	client *Client
	path   string
	handle func(EvalEvent)
	last   string // id of the last event
	over   bool
}

// follow reads events until the stream ends.
func (w *eventStream) follow(ctx context.Context) error {
	req, err := w.client.request(ctx, call{method: http.MethodGet, path: w.path})
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream, application/json")
	if w.last != "" {
		req.Header.Set("Last-Event-ID", w.last)
	}
	resp, err := w.client.api.Do(req)
	if err != nil {
		return unwrapURL(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent: // no event after the last one
		w.over = true
		return nil
	case resp.StatusCode != http.StatusOK:
		return newError(resp)
	}
	if err := w.read(resp.Body); err != nil || w.over {
		return err
	}
	return io.ErrUnexpectedEOF
}

// maxEvent is larger than any event.
const maxEvent = 4 << 20

func (w *eventStream) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	var event EvalEvent
	var data string
	for lines.Scan() && !w.over {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			event.ID = value
		case "event":
			event.Name = value
		case "data":
			data = value
		case "":
			if lines.Text() != "" || data == "" {
				continue // a comment, or an empty line without an event before it
			}
			if err := w.dispatch(event, data); err != nil {
				return err
			}
			event, data = EvalEvent{}, ""
		}
	}
	return lines.Err()
}

func (w *eventStream) dispatch(e EvalEvent, data string) error {
	var err error
	switch e.Name {
	case "case":
		var payload struct {
			api.EvalCase
			Progress api.EvalProgress `json:"progress"`
		}
		err = json.Unmarshal([]byte(data), &payload)
		e.Case, e.Progress = &payload.EvalCase, &payload.Progress
	case "progress":
		err = json.Unmarshal([]byte(data), &e.Progress)
	case "status":
		err = json.Unmarshal([]byte(data), &e.Run)
	}
	if err != nil {
		return permanent{fmt.Errorf("the event %s is not valid: %w", e.ID, err)}
	}
	w.last = e.ID
	w.over = e.Run != nil && e.Run.Over()
	w.handle(e)
	return nil
}
