package runs

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// Mount adds the routes of runs.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Document[api.TrialEvidence, Evidence](a)
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

type startRunInput struct {
	ID   string `path:"id" doc:"Id of the suite"`
	Body api.NewEvalRun
}

// NewSubjectOutput converts a pinned skill for a response.
func NewSubjectOutput(p subject.Pinned) api.PinnedSubject {
	return api.PinnedSubject{EvalSubject: api.EvalSubject(p.Ref), Name: p.Name, ContentHash: p.ContentHash, Label: p.Label}
}

func newRunOutput(r Run) api.EvalRun {
	m := r.Summary
	out := api.EvalRun{
		ID: r.ID, SuiteID: r.SuiteID, Status: string(r.Status), Trials: r.Trials, Baseline: string(r.Baseline), Seed: r.Seed,
		Subject:     NewSubjectOutput(r.Subject),
		Requires:    r.Subject.Requires,
		Progress:    Progress{Done: r.Done, Total: r.Total},
		Totals:      api.EvalTotals{Cases: r.caseCount, Passed: m.Passed, Failed: m.Failed, Errors: m.Errors, Skipped: m.Skipped},
		TrialErrors: m.TrialErrors, Reliable: m.Reliable(),
		PassRate: m.PassRate, PassRateInterval: m.Interval, PassK: m.PassK, BaselineResult: m.Baseline, Lift: m.Lift,
		MaxCostUSD: spend.USD(r.Terms.MaxMicros), EstimateUSD: spend.USD(r.Terms.Estimate),
		Imported: (*api.EvalOrigin)(r.Imported), ImproveRunID: r.ImproveRunID, Catalog: (*api.EvalCatalog)(r.Catalog),
		Error:     r.Error,
		CreatedAt: httpapi.Time(r.CreatedAt), StartedAt: httpapi.NullTime(r.StartedAt),
		FinishedAt: httpapi.NullTime(r.FinishedAt),
	}
	if r.Judge != nil {
		out.Judge = &r.Judge.EvalJudge
	}
	if r.Terms.SuiteVersion > 0 {
		out.SuiteVersion = &r.Terms.SuiteVersion
	}
	if r.Cost != nil {
		out.Cost = &api.EvalCost{USD: r.Cost.USD(), Requests: r.Cost.Requests, Tokens: r.Cost.Tokens}
	}
	if r.Terms.Agent != nil {
		agent := api.EvalAgent(*r.Terms.Agent)
		out.Agent = &agent
	}
	if m.Score != nil {
		out.Score, out.ScoreInterval = &m.Score.Value, &m.Score.Interval
	}
	return out
}

type oneRunOutput struct {
	Run api.EvalReport `json:"run"`
}

// Byte limits for outputs in a report of several cases: per trial, and over all trials
// together. A report of a single case has the whole stored tail.
const (
	shownTail  = 4 << 10
	shownTails = 8 << 20
)

func newReportOutput(r Report) api.EvalReport {
	out := api.EvalReport{EvalRun: newRunOutput(r.Run), Cases: make([]api.EvalCase, len(r.Cases))}
	limit := MaxTail
	var all []Trial
	if len(r.Cases) != 1 {
		limit = min(shownTail, shownTails/max(1, r.Total))
	}
	for i, c := range r.Cases {
		got := r.Results[i]
		out.Cases[i] = api.EvalCase{
			ID: c.ID, Name: c.Name, Title: c.Label(), CaseKind: string(c.Kind),
			Verdict: (*string)(got.Verdict), Score: got.Score, BaselineVerdict: (*string)(got.Baseline),
			CostUSDByVariant: usdByArm(CostsByArm(got.Trials)), Trials: make([]api.EvalTrial, len(got.Trials)),
		}
		all = append(all, got.Trials...)
		for k, t := range got.Trials {
			out.Cases[i].Trials[k] = NewTrialOutput(t, limit)
		}
	}
	out.CostUSDByVariant = usdByArm(CostsByArm(all))
	return out
}

// NewTrialOutput returns a trial as the API shows it, with at most limit bytes from the
// end of its output.
func NewTrialOutput(t Trial, limit int) api.EvalTrial {
	out := api.EvalTrial{
		N: t.N, Variant: string(t.Arm), Verdict: string(t.Verdict), Score: t.Score, Evidence: t.Evidence,
		OutputTail: tail(t.OutputTail, limit), DurationMS: t.Duration.Milliseconds(), Error: t.Error,
		CostUSD: t.CostUSD(), Turns: t.turns(),
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

func usdByArm(costs map[Arm]spend.Cost) map[string]*float64 {
	all := map[string]*float64{}
	for arm, c := range costs {
		all[string(arm)] = c.USD()
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
		Subject: subject.Ref(b.Subject), Trials: b.Trials, Baseline: Baseline(b.Baseline), Seed: b.Seed, CaseIDs: b.CaseIDs,
		Agent: (*suites.Agent)(b.Agent), MaxMicros: spend.Micros(b.MaxCostUSD),
	}
	if n.Catalog, err = catalogue.Chosen(b.Catalog, b.ContextWindow); err != nil {
		return oneRunOutput{}, err
	}
	r, err := s.Start(ctx, access.From(ctx), in.ID, n)
	if err != nil {
		return oneRunOutput{}, err
	}
	report, err := s.Shown(ctx, r.OrgID, r.ID, "")
	return oneRunOutput{report}, err
}

// Shown returns a run as the API shows it; see Report.
func (s *Service) Shown(ctx context.Context, orgID, id, caseID string) (api.EvalReport, error) {
	report, err := s.Report(ctx, orgID, id, caseID)
	if err != nil {
		return api.EvalReport{}, err
	}
	return newReportOutput(report), nil
}

type estimateInput struct {
	ID       string   `path:"id" doc:"Id of the suite"`
	Agent    string   `query:"agent" maxLength:"40" doc:"One of GET /api/v1/agents, for the cases that name none"`
	Model    string   `query:"model" maxLength:"100" doc:"One of the agent's models; its first one when omitted"`
	Trials   int      `query:"trials" minimum:"1" maximum:"30" default:"1" doc:"Of each case"`
	Baseline Baseline `query:"baseline" enum:"none,no_skill,previous" default:"none" doc:"What to compare with"`
}

func (s *Service) handleEstimate(ctx context.Context, in estimateInput) (out api.EvalEstimate, err error) {
	n := NewRun{Trials: in.Trials, Baseline: in.Baseline}
	if in.Agent != "" {
		n.Agent = &suites.Agent{Name: in.Agent, Model: in.Model}
	}
	trials, micros, err := s.Estimate(ctx, access.From(ctx).OrgID, in.ID, n)
	return api.EvalEstimate{Trials: trials, EstimateUSD: spend.USD(micros)}, err
}

type listRunsInput struct {
	ID     string `path:"id" doc:"Id of the suite"`
	Status Status `query:"status" enum:"queued,running,succeeded,failed,cancelled,budget_spent" doc:"Only runs in this state"`
	httpapi.Page
}

type listRunsOutput struct {
	Runs       []api.EvalRun      `json:"runs" nullable:"false" doc:"Without their cases"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listRunsInput) (listRunsOutput, error) {
	runs, total, err := s.List(ctx, access.From(ctx).OrgID, in.ID, Filter{in.Rows(), in.Status})
	out := listRunsOutput{Runs: make([]api.EvalRun, len(runs)), Pagination: in.Of(total)}
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
	report, err := s.Shown(ctx, access.From(ctx).OrgID, in.ID, in.CaseID)
	return oneRunOutput{report}, err
}

func (s *Service) handleCancel(ctx context.Context, in RunPath) (oneRunOutput, error) {
	r, err := s.Cancel(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return oneRunOutput{}, err
	}
	report, err := s.Shown(ctx, r.OrgID, r.ID, "")
	return oneRunOutput{report}, err
}

type runEventsInput struct {
	RunPath
	LastEventID string `header:"Last-Event-ID" doc:"Only events after this one"`
}

func (s *Service) handleEvents(ctx context.Context, in runEventsInput) (httpapi.Stream, error) {
	return s.Events(ctx, access.From(ctx).OrgID, in.ID, in.LastEventID)
}
