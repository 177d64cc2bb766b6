package runs

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/imported"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// Mount adds the routes of runs.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleStart, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/eval-suites/{id}/runs", Status: http.StatusAccepted,
		Summary: "Run an eval suite",
	})
	httpapi.Add(a, s.handleImport, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/eval-suites/{id}/runs/import", Status: http.StatusCreated,
		Also: []int{http.StatusOK}, MaxBody: suites.MaxImport,
		Form:    []httpapi.Part{{Name: "file", File: true, Doc: "aggregate-result.json of claude plugin eval, at most 10 MiB"}},
		Summary: "Import the result of a run that was made elsewhere",
	})
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/eval-suites/{id}/runs",
		Summary: "List a suite's runs, newest first",
	})
	httpapi.Add(a, s.handleEstimate, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/eval-suites/{id}/estimate",
		Summary: "Estimate what a run with an agent would cost",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/eval-runs/{id}",
		Summary: "Get an eval run",
	})
	httpapi.Add(a, s.handleCancel, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/eval-runs/{id}/cancel", WhenFull: true,
		Summary: "Cancel an eval run",
	})
	httpapi.Add(a, s.handleEvents, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/eval-runs/{id}/events",
		Also:     []int{http.StatusNoContent},
		Produces: []httpapi.Media{{Type: "text/event-stream"}},
		Summary:  "Follow an eval run by server-sent events",
	})
}

// SubjectInput names the skill of a run.
type SubjectInput struct {
	SourceID   string `json:"source_id,omitempty" doc:"A cloud source: its newest snapshot"`
	SnapshotID string `json:"snapshot_id,omitempty" doc:"A snapshot of a cloud source"`
	EntryID    string `json:"entry_id,omitempty" doc:"An entry of the registry"`
	Version    string `json:"version,omitempty" doc:"Of the entry; its current one when omitted"`
}

type startRunInput struct {
	ID   string `path:"id" doc:"Id of the suite"`
	Body struct {
		Subject  SubjectInput `json:"subject" doc:"Exactly one of source_id, snapshot_id and entry_id"`
		Trials   int          `json:"trials,omitempty" minimum:"1" maximum:"30" default:"1" doc:"Of each case"`
		Baseline Baseline     `json:"baseline,omitempty" enum:"none,no_skill,previous" default:"none" doc:"What to compare with"`
		Seed     int64        `json:"seed,omitempty" minimum:"0" maximum:"9007199254740991" doc:"Of an earlier run to compare with; a new one when omitted"`
		CaseIDs  []string     `json:"case_ids,omitempty" maxItems:"500" doc:"Only these cases of the suite; all when omitted"`
		Agent    *AgentInput  `json:"agent,omitempty" doc:"Works on the cases with a prompt, query or task package; without one, a model answers"`

		Catalog string `json:"catalog,omitempty" enum:"full,claude-code,codex" doc:"Ask the trigger queries on all skills of the registry: with whole descriptions, or as this agent truncates them; on chosen distractors when omitted"`
		Window  int64  `json:"context_window,omitempty" minimum:"0" maximum:"10000000" doc:"That the agent's budget is computed from, in tokens, from 1000 on; 0: 200000 for Claude Code, 272000 for Codex"`

		MaxCostUSD *float64 `json:"max_cost_usd,omitempty" exclusiveMinimum:"0" maximum:"100000" doc:"Most that the run may cost"`
	}
}

// AgentInput is the agent of a run.
type AgentInput struct {
	Name     string `json:"name" maxLength:"40" example:"claude-code" doc:"One of GET /api/v1/agents"`
	Model    string `json:"model,omitempty" maxLength:"100" doc:"One of the agent's models; its first one when omitted"`
	MaxTurns int    `json:"max_turns,omitempty" minimum:"1" maximum:"1000" default:"50" doc:"Most answers of the model, per trial"`
	TimeoutS int    `json:"timeout_s,omitempty" minimum:"1" maximum:"7200" default:"900" doc:"Most seconds, per trial"`
}

// RunOutput is a run in a response, without its cases.
type RunOutput struct {
	ID        string             `json:"id" format:"uuid"`
	SuiteID   string             `json:"suite_id" format:"uuid"`
	Status    Status             `json:"status" enum:"queued,running,succeeded,failed,cancelled,budget_spent"`
	Subject   SubjectOutput      `json:"subject"`
	Trials    int                `json:"trials"`
	Baseline  Baseline           `json:"baseline" enum:"none,no_skill,previous"`
	Seed      int64              `json:"seed"`
	Requires  []subject.Required `json:"requires,omitempty" doc:"Skills that the subject requires, pinned when the run started and present in all arms; only where skills compete or agents work"`
	Judge     *judge.Description `json:"judge" doc:"Null if no case needs one"`
	Progress  Progress           `json:"progress" doc:"Trials of all cases, the baseline's included"`
	Totals    TotalsOutput       `json:"totals" doc:"Cases; zero until the run is over"`
	Errors    int                `json:"trial_errors" doc:"Trials of both variants without a verdict; zero until the run is over"`
	Reliable  bool               `json:"reliable" doc:"False if more than a fifth of the trials ended as error: the rates say little then"`
	Score     *float64           `json:"score" doc:"Mean over the decided cases of the share of their trials that passed; does not grow with trials"`
	ScoreIn   *[2]float64        `json:"score_interval" doc:"Wilson interval of 95 %, over cases"`
	PassRate  *float64           `json:"pass_rate" doc:"Share of the decided cases that pass by the majority of their trials; with more trials it moves away from one half"`
	Interval  *[2]float64        `json:"pass_rate_interval" doc:"Wilson interval of 95 %"`
	PassK     *float64           `json:"pass_k" doc:"Share of cases whose every trial passed"`
	Compared  *ComparisonOutput  `json:"baseline_result"`
	Lift      *Lift              `json:"lift" doc:"What the skill changes against the baseline; null without one, and until the run is over"`
	Cost      *CostOutput        `json:"cost" doc:"Of the models that took part, so far; null for runs from before costs were counted"`
	Agent     *AgentInput        `json:"agent" doc:"That works on the cases which name none; null without one"`
	MaxUSD    *float64           `json:"max_cost_usd" doc:"Most that the run may cost; null for no limit"`
	Estimate  *float64           `json:"estimate_usd" doc:"What the run would probably cost, by the last trials of its agents; null if it is not known"`
	Imported  *imported.Origin   `json:"imported" doc:"Which tool made the run elsewhere; null for runs made here"`
	ImproveID *string            `json:"improve_run_id" doc:"Of the improve run that it was made for, and that alone counts it; null for others"`
	Catalog   *catalogue.Choice  `json:"catalog" doc:"That trigger queries were asked on; such a run counts in no gate and no rate. Null for others"`
	Error     *string            `json:"error" doc:"Why the run failed"`
	CreatedAt httpapi.Time       `json:"created_at"`
	StartedAt *httpapi.Time      `json:"started_at"`
	EndedAt   *httpapi.Time      `json:"finished_at"`
}

// SubjectOutput is the tested skill in a response: the reference of the request, and
// the skill that it resolved to.
type SubjectOutput struct {
	SubjectInput
	Name        string `json:"name"`
	ContentHash string `json:"content_hash"`
	Label       string `json:"label,omitempty" doc:"The version that was found"`
}

// NewSubjectOutput converts a pinned skill for a response.
func NewSubjectOutput(p subject.Pinned) SubjectOutput {
	return SubjectOutput{SubjectInput: SubjectInput(p.Ref), Name: p.Name, ContentHash: p.ContentHash, Label: p.Label}
}

// TotalsOutput counts cases by verdict.
type TotalsOutput struct {
	Cases   int `json:"cases"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Errors  int `json:"errors"`
	Skipped int `json:"skipped"`
}

// CostOutput is the cost of models in a response.
type CostOutput struct {
	USD      *float64           `json:"usd" doc:"Null if the price of a request is unknown"`
	Requests int64              `json:"requests" doc:"Failed ones included"`
	Tokens   pricing.CostTokens `json:"tokens"`
}

// ComparisonOutput is the result of the baseline, on the cases that both arms decided.
type ComparisonOutput struct {
	PassRate float64 `json:"pass_rate"`
	Delta    float64 `json:"delta"`
	Gain     float64 `json:"normalized_gain"`
}

func newRunOutput(r Run) RunOutput {
	m := r.Summary
	out := RunOutput{
		ID: r.ID, SuiteID: r.SuiteID, Status: r.Status, Trials: r.Trials, Baseline: r.Baseline, Seed: r.Seed, Judge: r.Judge,
		Subject:  NewSubjectOutput(r.Subject),
		Requires: r.Subject.Requires,
		Progress: Progress{r.Done, r.Total},
		Totals:   TotalsOutput{Cases: r.caseCount, Passed: m.Passed, Failed: m.Failed, Errors: m.Errors, Skipped: m.Skipped},
		Errors:   m.TrialErrors, Reliable: m.Reliable(), Imported: r.Imported, ImproveID: r.ImproveRunID, Catalog: r.Catalog,
		PassRate: m.PassRate, Interval: m.Interval, PassK: m.PassK, Lift: m.Lift, Error: r.Error,
		CreatedAt: httpapi.Time(r.CreatedAt), StartedAt: httpapi.NullTime(r.StartedAt), EndedAt: httpapi.NullTime(r.FinishedAt),
	}
	if r.Cost != nil {
		out.Cost = &CostOutput{r.Cost.USD(), r.Cost.Requests, r.Cost.Tokens}
	}
	if r.Terms.Agent != nil {
		agent := AgentInput(*r.Terms.Agent)
		out.Agent = &agent
	}
	out.MaxUSD, out.Estimate = spend.USD(r.Terms.MaxMicros), spend.USD(r.Terms.Estimate)
	if m.Score != nil {
		out.Score, out.ScoreIn = &m.Score.Value, &m.Score.Interval
	}
	if m.Baseline != nil {
		compared := ComparisonOutput(*m.Baseline)
		out.Compared = &compared
	}
	return out
}

// CaseOutput is a case of a run in a response, with its trials of all arms.
type CaseOutput struct {
	ID       string           `json:"id"`
	Name     string           `json:"name"`
	Title    string           `json:"title" doc:"The name, or the beginning of what it asks"`
	Kind     suites.CaseKind  `json:"case_kind"`
	Verdict  *Verdict         `json:"verdict" enum:"pass,fail,error,skipped" doc:"Null until there is one"`
	Score    *float64         `json:"score" doc:"The mean of its trials"`
	Baseline *Verdict         `json:"baseline_verdict" enum:"pass,fail,error,skipped"`
	Costs    map[Arm]*float64 `json:"cost_usd_by_variant" nullable:"false" doc:"Of its trials, in dollars; null if a price is unknown"`
	Trials   []TrialOutput    `json:"trials" nullable:"false"`
}

// TrialOutput is a trial in a response.
type TrialOutput struct {
	N          int      `json:"n"`
	Variant    Arm      `json:"variant" enum:"skill,no_skill,previous"`
	Verdict    Verdict  `json:"verdict" enum:"pass,fail,error,skipped"`
	Score      *float64 `json:"score"`
	Evidence   Evidence `json:"evidence" doc:"Why; summary says it in a sentence"`
	OutputTail string   `json:"output_tail"`
	DurationMS int64    `json:"duration_ms"`
	CostUSD    *float64 `json:"cost_usd" doc:"Of the models that took part; 0 if the agent asked none, null without an agent or a judge, or if a price is unknown"`
	Activated  *bool    `json:"activated" doc:"Whether the agent activated the skill; null without an agent, or if it does not tell"`
	Turns      *int     `json:"turns" doc:"Answers of the agent's model; null without an agent"`
	ToolCalls  *int     `json:"tool_calls" doc:"Calls of tools; null without an agent"`
	SessionID  *string  `json:"session_id" doc:"Opens what the agent did with GET /v1/sessions/{session_id}; null without an agent"`
	Error      *string  `json:"error" doc:"Why there is no verdict"`
}

// ReportOutput is a run with its cases in a response.
type ReportOutput struct {
	RunOutput
	Costs map[Arm]*float64 `json:"cost_usd_by_variant" nullable:"false" doc:"Of the trials of these cases, in dollars; null if a price is unknown"`
	Cases []CaseOutput     `json:"cases" nullable:"false"`
}

type oneRunOutput struct {
	Run ReportOutput `json:"run"`
}

// Byte limits for outputs in a report of several cases: per trial, and over all trials
// together. A report of a single case has the whole stored tail.
const (
	shownTail  = 4 << 10
	shownTails = 8 << 20
)

func newReportOutput(r Report) ReportOutput {
	out := ReportOutput{RunOutput: newRunOutput(r.Run), Cases: make([]CaseOutput, len(r.Cases))}
	limit := MaxTail
	var all []Trial
	if len(r.Cases) != 1 {
		limit = min(shownTail, shownTails/max(1, r.Total))
	}
	for i, c := range r.Cases {
		got := r.Results[i]
		out.Cases[i] = CaseOutput{
			ID: c.ID, Name: c.Name, Title: c.Label(), Kind: c.Kind,
			Verdict: got.Verdict, Score: got.Score, Baseline: got.Baseline,
			Costs: usdByArm(CostsByArm(got.Trials)), Trials: make([]TrialOutput, len(got.Trials)),
		}
		all = append(all, got.Trials...)
		for k, t := range got.Trials {
			out.Cases[i].Trials[k] = NewTrialOutput(t, limit)
		}
	}
	out.Costs = usdByArm(CostsByArm(all))
	return out
}

// NewTrialOutput returns a trial as the API shows it, with at most limit bytes from the
// end of its output.
func NewTrialOutput(t Trial, limit int) TrialOutput {
	out := TrialOutput{
		N: t.N, Variant: t.Arm, Verdict: t.Verdict, Score: t.Score, Evidence: t.Evidence,
		OutputTail: tail(t.OutputTail, limit), DurationMS: t.Duration.Milliseconds(), Error: t.Error,
		CostUSD: t.costUSD(), Turns: t.turns(),
	}
	if id := t.Evidence.Recording; id != "" {
		out.SessionID = &id
	}
	if a := t.Evidence.Agent; a != nil {
		out.Activated, out.ToolCalls = a.Activated, &a.ToolCalls
	}
	return out
}

// CostsByArm adds up the cost of trials per arm. Trials without a cost (neither agent
// nor judge) are left out; an arm that only has such trials has no entry.
func CostsByArm(trials []Trial) map[Arm]spend.Cost {
	all := map[Arm]spend.Cost{}
	for _, t := range trials {
		if t.Evidence.Cost != nil {
			sum := all[t.Arm]
			sum.Add(*t.Evidence.Cost)
			all[t.Arm] = sum
		}
	}
	return all
}

func usdByArm(costs map[Arm]spend.Cost) map[Arm]*float64 {
	all := map[Arm]*float64{}
	for arm, c := range costs {
		all[arm] = c.USD()
	}
	return all
}

func (s *Service) handleStart(ctx context.Context, in startRunInput) (oneRunOutput, error) {
	b := in.Body
	sourceID, err := suites.ParseSourceID(b.Subject.SourceID)
	if err != nil {
		return oneRunOutput{}, fault.Invalid("subject.source_id", "subject.source_id must be the id of a cloud source")
	}
	b.Subject.SourceID = sourceID
	n := NewRun{
		Subject: subject.Ref(b.Subject), Trials: b.Trials, Baseline: b.Baseline, Seed: b.Seed, CaseIDs: b.CaseIDs,
		Agent: (*suites.Agent)(b.Agent), MaxMicros: spend.Micros(b.MaxCostUSD),
	}
	if n.Catalog, err = catalogue.Chosen(b.Catalog, b.Window); err != nil {
		return oneRunOutput{}, err
	}
	r, err := s.Start(ctx, access.From(ctx), in.ID, n)
	if err != nil {
		return oneRunOutput{}, err
	}
	report, err := s.Report(ctx, r.OrgID, r.ID, "")
	return oneRunOutput{newReportOutput(report)}, err
}

type estimateInput struct {
	ID       string   `path:"id" doc:"Id of the suite"`
	Agent    string   `query:"agent" maxLength:"40" doc:"One of GET /api/v1/agents, for the cases that name none"`
	Model    string   `query:"model" maxLength:"100" doc:"One of the agent's models; its first one when omitted"`
	Trials   int      `query:"trials" minimum:"1" maximum:"30" default:"1" doc:"Of each case"`
	Baseline Baseline `query:"baseline" enum:"none,no_skill,previous" default:"none" doc:"What to compare with"`
}

type estimateOutput struct {
	Trials   int64    `json:"trials" doc:"With an agent"`
	Estimate *float64 `json:"estimate_usd" doc:"By what the last trials of the same agent and model cost; null if there were none"`
}

func (s *Service) handleEstimate(ctx context.Context, in estimateInput) (out estimateOutput, err error) {
	n := NewRun{Trials: in.Trials, Baseline: in.Baseline}
	if in.Agent != "" {
		n.Agent = &suites.Agent{Name: in.Agent, Model: in.Model}
	}
	trials, micros, err := s.Estimate(ctx, access.From(ctx).OrgID, in.ID, n)
	return estimateOutput{trials, spend.USD(micros)}, err
}

type listRunsInput struct {
	ID     string `path:"id" doc:"Id of the suite"`
	Status Status `query:"status" enum:"queued,running,succeeded,failed,cancelled,budget_spent" doc:"Only runs in this state"`
	httpapi.Page
}

type listRunsOutput struct {
	Runs       []RunOutput        `json:"runs" nullable:"false" doc:"Without their cases"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listRunsInput) (listRunsOutput, error) {
	runs, total, err := s.List(ctx, access.From(ctx).OrgID, in.ID, Filter{in.Rows(), in.Status})
	out := listRunsOutput{Runs: make([]RunOutput, len(runs)), Pagination: in.Of(total)}
	for i, r := range runs {
		out.Runs[i] = newRunOutput(r)
	}
	return out, err
}

// RunPath is the path parameter of a run.
type RunPath struct {
	ID string `path:"id" doc:"Id of the run"`
}

type getRunInput struct {
	RunPath
	CaseID string `query:"case_id" doc:"Only this case, with up to 64 KiB of each output"`
}

func (s *Service) handleGet(ctx context.Context, in getRunInput) (oneRunOutput, error) {
	report, err := s.Report(ctx, access.From(ctx).OrgID, in.ID, in.CaseID)
	if err != nil {
		return oneRunOutput{}, err
	}
	return oneRunOutput{newReportOutput(report)}, nil
}

func (s *Service) handleCancel(ctx context.Context, in RunPath) (oneRunOutput, error) {
	r, err := s.Cancel(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return oneRunOutput{}, err
	}
	report, err := s.Report(ctx, r.OrgID, r.ID, "")
	return oneRunOutput{newReportOutput(report)}, err
}

type runEventsInput struct {
	RunPath
	LastEventID string `header:"Last-Event-ID" doc:"Only events after this one"`
}

func (s *Service) handleEvents(ctx context.Context, in runEventsInput) (httpapi.Stream, error) {
	return s.Events(ctx, access.From(ctx).OrgID, in.ID, in.LastEventID)
}
