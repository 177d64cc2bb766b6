package comparisons

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// Mount adds the routes of comparisons.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleStart, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/comparisons", Status: http.StatusAccepted,
		Also:    []int{http.StatusOK},
		Summary: "Compare versions, no skill, agents or models on a suite",
	})
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/comparisons",
		Summary: "List comparisons, newest first",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/comparisons/{id}",
		Produces: []httpapi.Media{{Type: "application/json", Body: comparisonOutput{}}, {Type: "text/csv"}},
		Summary:  "Get a comparison",
	})
	httpapi.Add(a, s.handleCancel, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/comparisons/{id}/cancel", WhenFull: true,
		Summary: "Cancel a comparison",
	})
}

type startInput struct {
	Body api.NewComparison
}

// startedOutput is the comparison, or what it would take.
type startedOutput struct {
	Comparison *api.Comparison         `json:"comparison,omitempty" doc:"That was started"`
	Estimate   *api.ComparisonEstimate `json:"estimate,omitempty" doc:"With estimate: true, in place of comparison"`
}

// HTTPStatus is 202 for a comparison, and 200 for an estimate.
func (o startedOutput) HTTPStatus() int {
	if o.Comparison != nil {
		return http.StatusAccepted
	}
	return http.StatusOK
}

func (s *Service) handleStart(ctx context.Context, in startInput) (out startedOutput, err error) {
	b := in.Body
	n := New{
		SuiteID: b.SuiteID, Trials: b.Trials, Margin: b.Margin, Preference: b.Preference,
		MaxMicros: spend.Micros(b.MaxCostUSD),
	}
	for i, a := range b.Arms {
		sourceID, err := suites.ParseSourceID(a.SourceID)
		if err != nil {
			field := fmt.Sprintf("arms.%d.source_id", i)
			return out, fault.Invalid(field, "%s must be the id of a cloud source", field)
		}
		n.Arms = append(n.Arms, NewArm{
			Name: a.Name, Subject: subject.Ref{EntryID: a.EntryID, SourceID: sourceID, Version: a.Version}, NoSkill: a.NoSkill,
			Agent: (*suites.Agent)(a.Agent),
		})
	}
	caller := access.From(ctx)
	if b.Estimate {
		e, err := s.Estimate(ctx, caller, n)
		return startedOutput{Estimate: &e}, err
	}
	c, err := s.Start(ctx, caller, n)
	if err != nil {
		return out, err
	}
	one, err := s.output(ctx, c)
	return startedOutput{Comparison: &one.Comparison}, err
}

type listInput struct {
	SuiteID string      `query:"suite_id" doc:"Only on this suite"`
	EntryID string      `query:"entry_id" doc:"Only those with an arm of this entry"`
	Status  runs.Status `query:"status" enum:"queued,running,succeeded,failed,cancelled,budget_spent" doc:"Only in this state"`
	Cursor  string      `query:"cursor" maxLength:"36" doc:"The next_cursor of an answer, for the comparisons after it"`
	Limit   int         `query:"limit" default:"20" minimum:"1" maximum:"100" doc:"Comparisons in an answer"`
}

type listOutput struct {
	Comparisons []api.Comparison `json:"comparisons" nullable:"false" doc:"Newest first"`
	NextCursor  *string          `json:"next_cursor" doc:"Where the next answer begins; null at the end"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	all, more, err := s.List(ctx, access.From(ctx).OrgID, Filter{
		SuiteID: in.SuiteID, EntryID: in.EntryID, Status: in.Status, Before: in.Cursor, Limit: in.Limit,
	})
	out := listOutput{Comparisons: make([]api.Comparison, len(all))}
	if err != nil {
		return out, err
	}
	progress, err := s.Progress(ctx, all...)
	for i, c := range all {
		out.Comparisons[i] = c.Output(progress[c.ID])
	}
	if more {
		out.NextCursor = &all[len(all)-1].ID
	}
	return out, err
}

type comparisonPath struct {
	ID string `path:"id" doc:"Id of the comparison"`
}

type comparisonOutput struct {
	Comparison api.Comparison `json:"comparison" doc:"With its arms, pairs and recommendation"`
}

type getInput struct {
	ID string `path:"id" doc:"Id of the comparison; followed by .csv, a row for each case and arm"`
}

func (s *Service) handleGet(ctx context.Context, in getInput) (httpapi.Stream, error) {
	id, asFile := strings.CutSuffix(in.ID, ".csv")
	c, err := s.Get(ctx, access.From(ctx).OrgID, id)
	if err != nil {
		return nil, err
	}
	if asFile {
		return s.File(ctx, c)
	}
	out, err := s.output(ctx, c)
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the client is gone
	}, nil
}

func (s *Service) handleCancel(ctx context.Context, in comparisonPath) (comparisonOutput, error) {
	c, err := s.Cancel(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return comparisonOutput{}, err
	}
	return s.output(ctx, c)
}

func (s *Service) output(ctx context.Context, c Comparison) (comparisonOutput, error) {
	progress, err := s.Progress(ctx, c)
	return comparisonOutput{c.Output(progress[c.ID])}, err
}

// Output is a comparison as the API and the pages show it.
func (c Comparison) Output(p runs.Progress) api.Comparison {
	out := api.Comparison{
		ID: c.ID, SuiteID: c.SuiteID, Status: string(c.Status), Trials: c.Trials, Preference: c.Preference, Progress: p,
		Arms: []api.ComparedArm{}, Pairs: []api.ComparedPair{},
		Recommendation: api.ComparisonRecommendation{Kind: "none", Margin: c.Margin},
		MaxCostUSD:     spend.USD(c.MaxMicros), Error: c.Error,
		CreatedAt: httpapi.Time(c.CreatedAt), EndedAt: httpapi.NullTime(c.EndedAt),
	}
	if r := c.Result; r != nil {
		out.Arms, out.Pairs, out.Recommendation, out.CostUSD = r.Arms, r.Pairs, r.Recommendation, r.CostUSD
		return out
	}
	for _, a := range c.Arms {
		out.Arms = append(out.Arms, a.output())
	}
	switch {
	case c.Error != nil:
		out.Recommendation.Reason = *c.Error
	case c.Status == runs.Cancelled:
		out.Recommendation.Reason = "The comparison was cancelled."
	default:
		out.Recommendation.Reason = "The comparison isn't over."
	}
	return out
}

// output is an arm without its figures.
func (a Arm) output() api.ComparedArm {
	out := api.ComparedArm{Name: a.Name, NoSkill: a.NoSkill(), Reused: a.reused}
	if a.runID != "" {
		out.RunID = &a.runID
	}
	if a.Subject.EntryID != "" {
		out.EntryID = &a.Subject.EntryID
	}
	if a.Subject.SourceID != "" {
		shown := sources.Prefix + a.Subject.SourceID
		out.SourceID = &shown
	}
	if a.Label != "" {
		out.Version = &a.Label
	}
	if a.Agent != nil {
		agent := api.EvalAgent(*a.Agent)
		out.Agent = &agent
	}
	return out
}
