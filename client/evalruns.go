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
	"time"
)

// An EvalRun is one execution of a suite's cases against a skill.
type EvalRun struct {
	ID          string       `json:"id"`
	SuiteID     string       `json:"suite_id"`
	Status      string       `json:"status"` // queued, running, succeeded, failed, cancelled or budget_spent
	Subject     EvalSubject  `json:"subject"`
	Trials      int          `json:"trials"`
	Baseline    string       `json:"baseline"` // none, no_skill or previous
	Seed        int64        `json:"seed"`
	Judge       *EvalJudge   `json:"judge"`
	Progress    EvalProgress `json:"progress"`
	Totals      EvalTotals   `json:"totals"`
	TrialErrors int          `json:"trial_errors"` // trials without a verdict
	Reliable    bool         `json:"reliable"`     // few enough trial errors for the rates to mean something
	// Score is the mean over cases of the share of trials that passed; nil from older servers.
	Score            *float64      `json:"score"`
	ScoreInterval    *[2]float64   `json:"score_interval"`
	PassRate         *float64      `json:"pass_rate"` // by the majority of the trials of each case
	PassRateInterval *[2]float64   `json:"pass_rate_interval"`
	PassK            *float64      `json:"pass_k"`
	BaselineResult   *EvalBaseline `json:"baseline_result"`
	Lift             *EvalLift     `json:"lift"` // nil without a baseline
	Cost             *EvalCost     `json:"cost"` // nil from servers and of runs that did not count it
	Agent            *EvalAgent    `json:"agent"`
	MaxCostUSD       *float64      `json:"max_cost_usd"`
	EstimateUSD      *float64      `json:"estimate_usd"`
	// CostUSDByVariant is the cost by skill, no_skill and previous; nil values are
	// unknown.
	CostUSDByVariant map[string]*float64 `json:"cost_usd_by_variant"`
	Imported         *EvalOrigin         `json:"imported"`           // nil for runs made on the server
	Catalog          *EvalCatalog        `json:"catalog"`            // nil for runs on chosen distractors
	ImproveRunID     *string             `json:"improve_run_id"`     // of the improve run that it was made for
	Requires         []EvalRequired      `json:"requires,omitempty"` // skills that were present in all arms
	Error            *string             `json:"error"`
	CreatedAt        time.Time           `json:"created_at"`
	StartedAt        *time.Time          `json:"started_at"`
	FinishedAt       *time.Time          `json:"finished_at"`
	Cases            []EvalCase          `json:"cases,omitempty"` // lists and events have none
}

// An EvalRequired is a skill that the subject of a run requires.
type EvalRequired struct {
	Name         string `json:"name"`
	State        string `json:"state"`
	Organisation string `json:"organisation,omitempty"`
	EntryID      string `json:"entry_id,omitempty"`
	Version      string `json:"version,omitempty"`
	ContentHash  string `json:"content_hash,omitempty"`
}

// An EvalOrigin is the tool that made a run elsewhere.
type EvalOrigin struct {
	Tool    string  `json:"tool"` // e.g. claude plugin eval
	Version string  `json:"version"`
	CostUSD float64 `json:"cost_usd"`
	// Digest is that of the results; the rest is what the tool itself says in them.
	Digest        string   `json:"digest,omitempty"`
	Model         string   `json:"model,omitempty"`
	JudgeModel    string   `json:"judge_model,omitempty"`
	Plugins       []string `json:"plugins,omitempty"`
	OverallScore  float64  `json:"overall_score"`
	Threshold     float64  `json:"threshold"`
	CasesPassed   int      `json:"cases_passed"`
	MeanDelta     *float64 `json:"mean_delta"`
	PartialReason string   `json:"partial_reason,omitempty"` // why some of it is missing
}

// An EvalCatalog is the listing of skills that the model of a run chose from.
type EvalCatalog struct {
	Catalog       string `json:"catalog"` // full, claude-code or codex
	ContextWindow int64  `json:"context_window"`
	Skills        int    `json:"skills"`
	Pair          string `json:"pair"` // equal for runs that differ in the listing only
}

// Over reports whether the run has ended.
func (r EvalRun) Over() bool {
	return r.Status == "succeeded" || r.Status == "failed" || r.Status == "cancelled" || r.Status == "budget_spent"
}

// An EvalSubject names the skill of a run: by a cloud source, a snapshot of
// one, or an entry of the registry.
type EvalSubject struct {
	SourceID   string `json:"source_id,omitempty"`
	SnapshotID string `json:"snapshot_id,omitempty"`
	EntryID    string `json:"entry_id,omitempty"`
	Version    string `json:"version,omitempty"` // of the entry; its current one when empty
	Name       string `json:"name,omitempty"`    // of the skill, in answers
	Label      string `json:"label,omitempty"`   // of the version or snapshot, in answers
	// ContentHash is that of the files, in answers.
	ContentHash string `json:"content_hash,omitempty"`
}

// EvalJudge is the model that judged.
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

// EvalBaseline is the result of the baseline.
type EvalBaseline struct {
	PassRate       float64 `json:"pass_rate"`
	Delta          float64 `json:"delta"`
	NormalizedGain float64 `json:"normalized_gain"`
}

// An EvalLift is what the skill changes against the baseline, on the cases that both decided.
type EvalLift struct {
	Difference float64     `json:"difference"` // of the scores
	Interval   [2]float64  `json:"interval"`
	P          float64     `json:"p"`
	Cost       *EvalFigure `json:"cost_ratio"` // of the skill to the baseline; nil if too few cases tell
	Tokens     *EvalFigure `json:"tokens_ratio"`
	Turns      *EvalFigure `json:"turns_ratio"`
	Duration   *EvalFigure `json:"duration_ratio"`
}

// An EvalFigure has its interval of 95 %.
type EvalFigure struct {
	Value    float64    `json:"value"`
	Interval [2]float64 `json:"interval"`
}

// EvalCost is what the models that took part cost.
type EvalCost struct {
	USD      *float64 `json:"usd"` // nil if the price of a request is unknown
	Requests int64    `json:"requests"`
	Tokens   struct {
		Input      int64 `json:"input"`
		Output     int64 `json:"output"`
		CacheRead  int64 `json:"cache_read"`
		CacheWrite int64 `json:"cache_write"`
	} `json:"tokens"`
}

// An EvalAgent is the coding agent that works on the cases of a run. All but Name
// may be empty.
type EvalAgent struct {
	Name     string `json:"name"`
	Model    string `json:"model,omitempty"`
	MaxTurns int    `json:"max_turns,omitempty"`
	TimeoutS int    `json:"timeout_s,omitempty"`
}

// An EvalCase is a case of a run.
type EvalCase struct {
	ID              string      `json:"id"`
	Name            string      `json:"name"`
	Title           string      `json:"title,omitempty"` // its name, or what it asks; empty from older servers
	CaseKind        string      `json:"case_kind"`
	Verdict         *string     `json:"verdict"` // pass, fail, error or skipped; nil until there is one
	Score           *float64    `json:"score"`
	BaselineVerdict *string     `json:"baseline_verdict"`
	Trials          []EvalTrial `json:"trials,omitempty"`

	CostUSDByVariant map[string]*float64 `json:"cost_usd_by_variant,omitempty"`
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
	CostUSD    *float64        `json:"cost_usd"`
	Activated  *bool           `json:"activated"`
	Turns      *int            `json:"turns"`
	ToolCalls  *int            `json:"tool_calls"`
	SessionID  *string         `json:"session_id"`
	Error      *string         `json:"error"`
}

// An EvalTrialDetail is a trial with what was asked and done in it.
type EvalTrialDetail struct {
	RunID    string `json:"run_id"`
	CaseID   string `json:"case_id"`
	CaseName string `json:"case_name"`
	CaseKind string `json:"case_kind"`
	EvalTrial
	Asked          *string       `json:"asked"` // nil if the case has no instruction
	Session        SessionDetail `json:"session"`
	Files          []EvalFile    `json:"files"` // that the agent changed
	FilesTruncated bool          `json:"files_truncated"`
}

// An EvalFile is a file that an agent changed in a trial.
type EvalFile struct {
	Path      string  `json:"path"`
	Change    string  `json:"change"` // added, modified or deleted
	Size      int64   `json:"size"`
	SHA256    *string `json:"sha256"`
	Text      *string `json:"text"` // nil unless it is a text
	Truncated bool    `json:"truncated"`
	Diff      *string `json:"diff"`
}

// A NewEvalRun describes a run to start.
type NewEvalRun struct {
	Subject  EvalSubject `json:"subject"`
	Trials   int         `json:"trials,omitempty"`   // of each case; 1 when 0
	Baseline string      `json:"baseline,omitempty"` // none when empty
	Seed     int64       `json:"seed,omitempty"`     // of a run to compare with
	CaseIDs  []string    `json:"case_ids,omitempty"` // all cases when empty
	Agent    *EvalAgent  `json:"agent,omitempty"`    // nil for none

	Catalog       string `json:"catalog,omitempty"`        // full, claude-code, codex, or empty for chosen distractors
	ContextWindow int64  `json:"context_window,omitempty"` // of an agent's catalog

	MaxCostUSD *float64 `json:"max_cost_usd,omitempty"` // nil for no limit
}

// An EvalEstimate is what a run with an agent would probably cost.
type EvalEstimate struct {
	Trials      int64    `json:"trials"`       // with an agent
	EstimateUSD *float64 `json:"estimate_usd"` // nil if the agent was not used before
}

type runAnswer struct {
	Run EvalRun `json:"run"`
}

func runPath(id string) string { return "/api/v1/eval-runs/" + url.PathEscape(id) }

// StartEvalRun starts a run of a suite. A suite that is not runnable is an *Error
// with the status 409.
func (c *Client) StartEvalRun(ctx context.Context, suiteID string, n NewEvalRun) (EvalRun, error) {
	var out runAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: suitePath(suiteID) + "/runs", body: encode(n)}, &out)
	return out.Run, err
}

// EstimateEvalRun estimates what a run of a suite would cost, before it is started.
func (c *Client) EstimateEvalRun(ctx context.Context, suiteID string, n NewEvalRun) (out EvalEstimate, err error) {
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
func (c *Client) EvalRun(ctx context.Context, id string) (EvalRun, error) {
	var out runAnswer
	err := c.get(ctx, runPath(id), nil, &out)
	return out.Run, err
}

// EvalTrial returns the trial of a run's case with all its events; variant is skill,
// no_skill or previous, and n counts from 1. One that does not exist is an *Error
// with the status 404.
func (c *Client) EvalTrial(ctx context.Context, runID, caseID, variant string, n int) (out EvalTrialDetail, err error) {
	query := url.Values{"case_id": {caseID}, "variant": {variant}}
	for {
		var page struct {
			Trial EvalTrialDetail `json:"trial"`
			Next  *string         `json:"next_cursor"`
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
func (c *Client) EvalRuns(ctx context.Context, suiteID string) ([]EvalRun, error) {
	var out struct {
		Runs []EvalRun `json:"runs"`
	}
	err := c.get(ctx, suitePath(suiteID)+"/runs", nil, &out)
	return out.Runs, err
}

// CancelEvalRun cancels a run; finished trials are kept.
func (c *Client) CancelEvalRun(ctx context.Context, id string) (EvalRun, error) {
	var out runAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: runPath(id) + "/cancel", idempotent: true}, &out)
	return out.Run, err
}

// An EvalEvent is a change of a run. Which fields are set depends on Name: Case
// and Progress for "case", Progress for "progress", Run for "status".
type EvalEvent struct {
	ID       string
	Name     string // case, progress or status
	Case     *EvalCase
	Progress *EvalProgress
	Run      *EvalRun
}

// WatchEvalRun calls handle with every event of a run, from its beginning to its
// end, and returns the run with its cases. A broken connection is resumed after
// the last event (Last-Event-ID).
func (c *Client) WatchEvalRun(ctx context.Context, id string, handle func(EvalEvent)) (EvalRun, error) {
	w := &eventStream{client: c, path: runPath(id) + "/events", handle: handle}
	for !w.over {
		seen := w.last
		err := retry(ctx, true, func() error { return w.follow(ctx) })
		// A connection that delivered something before it broke starts a new count of
		// retries.
		if err != nil && (w.last == seen || ctx.Err() != nil) {
			return EvalRun{}, fmt.Errorf("watch run %s: %w", id, err)
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
			EvalCase
			Progress EvalProgress `json:"progress"`
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
