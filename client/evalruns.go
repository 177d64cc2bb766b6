package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// An EvalRun is one execution of a suite's cases against a skill.
type EvalRun struct {
	ID               string        `json:"id"`
	SuiteID          string        `json:"suite_id"`
	Status           string        `json:"status"` // queued, running, succeeded, failed or cancelled
	Subject          EvalSubject   `json:"subject"`
	Trials           int           `json:"trials"`
	Baseline         string        `json:"baseline"` // none, no_skill or previous
	Seed             int64         `json:"seed"`
	Judge            *EvalJudge    `json:"judge"`
	Progress         EvalProgress  `json:"progress"`
	Totals           EvalTotals    `json:"totals"`
	TrialErrors      int           `json:"trial_errors"` // trials without a verdict
	Reliable         bool          `json:"reliable"`     // few enough of them for the rates to be believed
	PassRate         *float64      `json:"pass_rate"`
	PassRateInterval *[2]float64   `json:"pass_rate_interval"`
	PassK            *float64      `json:"pass_k"`
	BaselineResult   *EvalBaseline `json:"baseline_result"`
	Error            *string       `json:"error"`
	CreatedAt        time.Time     `json:"created_at"`
	StartedAt        *time.Time    `json:"started_at"`
	FinishedAt       *time.Time    `json:"finished_at"`
	Cases            []EvalCase    `json:"cases,omitempty"` // lists and events have none
}

// Over reports whether nothing more comes of the run.
func (r EvalRun) Over() bool {
	return r.Status == "succeeded" || r.Status == "failed" || r.Status == "cancelled"
}

// An EvalSubject names the skill of a run: by a cloud source, a snapshot of
// one, or an entry of the registry.
type EvalSubject struct {
	SourceID   string `json:"source_id,omitempty"`
	SnapshotID string `json:"snapshot_id,omitempty"`
	EntryID    string `json:"entry_id,omitempty"`
	Version    string `json:"version,omitempty"` // of the entry; its current one when empty
	Name       string `json:"name,omitempty"`    // what was found
	Label      string `json:"label,omitempty"`   // the version that was found
}

// EvalJudge is who judged.
type EvalJudge struct {
	API           string `json:"api"`
	Model         string `json:"model"`
	PromptVersion string `json:"prompt_version"`
}

// EvalProgress counts trials.
type EvalProgress struct {
	Done  int `json:"done"`
	Total int `json:"total"`
}

// EvalTotals counts cases.
type EvalTotals struct {
	Cases   int `json:"cases"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Errors  int `json:"errors"`
	Skipped int `json:"skipped"`
}

// EvalBaseline is how the baseline did.
type EvalBaseline struct {
	PassRate       float64 `json:"pass_rate"`
	Delta          float64 `json:"delta"`
	NormalizedGain float64 `json:"normalized_gain"`
}

// An EvalCase is a case of a run.
type EvalCase struct {
	ID              string      `json:"id"`
	Name            string      `json:"name"`
	CaseKind        string      `json:"case_kind"`
	Verdict         *string     `json:"verdict"` // pass, fail, error or skipped; nil until there is one
	Score           *float64    `json:"score"`
	BaselineVerdict *string     `json:"baseline_verdict"`
	Trials          []EvalTrial `json:"trials,omitempty"`
}

// An EvalTrial is one try of a case.
type EvalTrial struct {
	N          int             `json:"n"`
	Variant    string          `json:"variant"` // skill, no_skill or previous
	Verdict    string          `json:"verdict"`
	Score      *float64        `json:"score"`
	Evidence   json.RawMessage `json:"evidence"`
	OutputTail string          `json:"output_tail"`
	DurationMS int64           `json:"duration_ms"`
	Error      *string         `json:"error"`
}

// A NewEvalRun is a run to be started.
type NewEvalRun struct {
	Subject  EvalSubject `json:"subject"`
	Trials   int         `json:"trials,omitempty"`   // of each case; 1 when 0
	Baseline string      `json:"baseline,omitempty"` // none when empty
}

type runAnswer struct {
	Run EvalRun `json:"run"`
}

func runPath(id string) string { return "/api/v1/eval-runs/" + url.PathEscape(id) }

// StartEvalRun starts a run of a suite. One that cannot be run is an *Error
// with the status 409.
func (c *Client) StartEvalRun(ctx context.Context, suiteID string, n NewEvalRun) (EvalRun, error) {
	var out runAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: suitePath(suiteID) + "/runs", body: encode(n)}, &out)
	return out.Run, err
}

// EvalRun returns a run with its cases.
func (c *Client) EvalRun(ctx context.Context, id string) (EvalRun, error) {
	var out runAnswer
	_, err := c.do(ctx, call{method: http.MethodGet, path: runPath(id), repeatable: true}, &out)
	return out.Run, err
}

// EvalRuns lists the newest runs of a suite without their cases, newest first.
func (c *Client) EvalRuns(ctx context.Context, suiteID string) ([]EvalRun, error) {
	var out struct {
		Runs []EvalRun `json:"runs"`
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: suitePath(suiteID) + "/runs", repeatable: true}, &out)
	return out.Runs, err
}

// CancelEvalRun ends a run; trials that were made are kept.
func (c *Client) CancelEvalRun(ctx context.Context, id string) (EvalRun, error) {
	var out runAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: runPath(id) + "/cancel", repeatable: true}, &out)
	return out.Run, err
}

// An EvalEvent is news of a run. Of its fields the one that its name says is
// set: Case and Progress of a case, Progress of progress, Run of status.
type EvalEvent struct {
	ID       string
	Name     string // case, progress or status
	Case     *EvalCase
	Progress *EvalProgress
	Run      *EvalRun
}

// WatchEvalRun tells the news of a run, all from its beginning, until it is
// over, and returns it with its cases. It goes on where it was when the
// connection breaks.
func (c *Client) WatchEvalRun(ctx context.Context, id string, tell func(EvalEvent)) (EvalRun, error) {
	w := &watch{client: c, path: runPath(id) + "/events", tell: tell}
	for !w.over {
		seen := w.last
		err := retry(ctx, true, func() error { return w.follow(ctx) })
		if err != nil && (w.last == seen || ctx.Err() != nil) {
			return EvalRun{}, fmt.Errorf("watch run %s: %w", id, err)
		}
	}
	return c.EvalRun(ctx, id)
}

// A watch is a stream of events that may break off and be taken up again.
type watch struct {
	client *Client
	path   string
	tell   func(EvalEvent)
	last   string // id of the last event
	over   bool
}

// follow reads events until the stream ends.
func (w *watch) follow(ctx context.Context) error {
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
	case resp.StatusCode == http.StatusNoContent: // all were seen
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

// maxEvent is more than any event has.
const maxEvent = 4 << 20

func (w *watch) read(r io.Reader) error {
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
				continue // a comment, or nothing before it
			}
			if err := w.news(event, data); err != nil {
				return err
			}
			event, data = EvalEvent{}, ""
		}
	}
	return lines.Err()
}

func (w *watch) news(e EvalEvent, data string) error {
	var err error
	switch e.Name {
	case "case":
		var told struct {
			EvalCase
			Progress EvalProgress `json:"progress"`
		}
		err = json.Unmarshal([]byte(data), &told)
		e.Case, e.Progress = &told.EvalCase, &told.Progress
	case "progress":
		err = json.Unmarshal([]byte(data), &e.Progress)
	case "status":
		err = json.Unmarshal([]byte(data), &e.Run)
	}
	if err != nil {
		return permanent{fmt.Errorf("the event %s cannot be understood: %w", e.ID, err)}
	}
	w.last = e.ID
	w.over = e.Run != nil && e.Run.Over()
	w.tell(e)
	return nil
}
