package improve

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// Mount adds the routes of improve runs.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleStart, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/improve-runs", Status: http.StatusAccepted,
		Summary: "Look for a better description or body of a skill",
	})
	httpapi.Add(a, s.handleEstimate, httpapi.Route{
		Permission: access.Read, Method: "POST", Path: "/api/v1/improve-runs/estimate",
		Summary: "Estimate what an improve run would cost",
	})
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/improve-runs",
		Summary: "List improve runs, newest first",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/improve-runs/{id}",
		Summary: "Get an improve run",
	})
	httpapi.Add(a, s.handleCancel, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/improve-runs/{id}/cancel", WhenFull: true,
		Summary: "Cancel an improve run",
	})
}

// The types of the API have the names of their schemas in the OpenAPI document,
// which keep the prefix Improve.

type startImproveInput struct {
	Body api.NewImproveRun
}

// newRun is the run that the request describes.
func (in startImproveInput) newRun() (NewRun, error) {
	b := in.Body
	sourceID, err := suites.ParseSourceID(b.SourceID)
	return NewRun{
		Subject: subject.Ref{SourceID: sourceID, EntryID: b.EntryID}, SuiteID: b.SuiteID, Target: edit.Target(b.Target),
		MaxIterations: b.MaxIterations, Holdout: b.Holdout,
		MaxCostUSD: b.MaxCostUSD, MaxCalls: b.MaxCalls, MaxMinutes: b.MaxMinutes,
	}, err
}

func newImproveOutput(r Run) api.ImproveRun {
	out := api.ImproveRun{
		ID: r.ID, SuiteID: r.SuiteID, Subject: runs.NewSubjectOutput(r.Subject), Status: string(r.Status),
		Target: string(r.Terms.Target), MaxIterations: r.MaxIterations, Holdout: r.Holdout, Seed: r.Seed,
		Judge:      r.Judge.EvalJudge,
		MaxCostUSD: spend.USD(r.Terms.MaxMicros), MaxCalls: r.Terms.MaxCalls, MaxMinutes: r.Terms.MaxMinutes,
		Splits:   api.ImproveSplits(r.Splits()),
		Progress: runs.Progress{Done: r.Done, Total: r.Total},
		Cases:    api.ImproveCases{Train: r.Train, Holdout: r.HeldOut, LeftOut: r.LeftOut},
		Current:  api.ImproveCurrent{Description: r.Description}, Iterations: []api.ImproveIteration{},
		ProposalID: r.ProposalID, Error: r.Error,
		CreatedAt: httpapi.Time(r.CreatedAt), StartedAt: httpapi.NullTime(r.StartedAt),
		FinishedAt: httpapi.NullTime(r.FinishedAt),
	}
	// Runs of earlier versions didn't store what they cost; a 0 would be wrong.
	if r.Terms.Trials > 0 {
		out.Cost = &api.EvalCost{USD: r.Cost.USD(), Requests: r.Cost.Requests, Tokens: r.Cost.Tokens}
	}
	if by := r.Terms.StoppedBy; by != "" {
		out.StoppedBy = (*string)(&by)
	}
	if r.Proof != nil {
		proof := api.ImproveProof(*r.Proof)
		out.Proof = &proof
	}
	for _, it := range r.Iterations {
		var train, holdout *api.ImproveScore
		// Scores are null until they are known: a candidate without cases would otherwise show 0 of
		// 0.
		if it.Description != nil && (it.Train.Cases > 0 || it.Scored()) {
			train = &api.ImproveScore{Passed: it.Train.Passed, Cases: it.Train.Cases, Rate: it.Train.Rate()}
		}
		if it.Description != nil && (it.HeldOut.Cases > 0 || it.Scored() && it.Problem == nil) {
			holdout = &api.ImproveScore{
				Passed: it.HeldOut.Passed, Cases: it.HeldOut.Cases, Rate: it.HeldOut.Rate(), Interval: it.HeldOut.Interval(),
			}
		}
		if it.N == 0 {
			out.Current.Train, out.Current.Holdout, out.Current.Errors = train, holdout, it.Errors
			continue
		}
		out.Iterations = append(out.Iterations, api.ImproveIteration{
			N: it.N, Parent: it.Parent, Partner: it.Partner, Description: it.Description,
			Edits: editsOf(it), Reason: it.Reason,
			Train: train, Holdout: holdout, Errors: it.Errors, Problem: it.Problem,
		})
		if r.Status == runs.Succeeded && *r.Winner == it.N {
			out.Winner = newWinnerOutput(r, it)
		}
	}
	return out
}

// editsOf are the edits of a candidate, whose cases are never null, also where they were
// stored as null.
func editsOf(it Iteration) []edit.Edit {
	all := append([]edit.Edit{}, it.Edits...)
	for i := range all {
		all[i].Cases = append([]string{}, all[i].Cases...)
	}
	return all
}

// newWinnerOutput reports the figures of the proof: those of the selection flatter the winner,
// since it was chosen by them. Runs of earlier versions have no proof.
func newWinnerOutput(r Run, it Iteration) *api.ImproveWinner {
	out := &api.ImproveWinner{
		N: it.N, Description: *it.Description, PassRate: it.HeldOut.Rate(), PassRateInterval: it.HeldOut.Interval(),
	}
	if r.Proof != nil {
		low, high := stats.Wilson(r.Proof.Winner, r.Proof.Cases)
		out.PassRate, out.PassRateInterval = &r.Proof.Winner, &[2]float64{low, high}
	}
	return out
}

type oneImproveOutput struct {
	Run api.ImproveRun `json:"improve_run"`
}

func (s *Service) handleStart(ctx context.Context, in startImproveInput) (oneImproveOutput, error) {
	n, err := in.newRun()
	if err != nil {
		return oneImproveOutput{}, err
	}
	r, err := s.Start(ctx, access.From(ctx), n)
	return oneImproveOutput{newImproveOutput(r)}, err
}

func (s *Service) handleEstimate(ctx context.Context, in startImproveInput) (api.ImproveEstimate, error) {
	n, err := in.newRun()
	if err != nil {
		return api.ImproveEstimate{}, err
	}
	e, err := s.Estimate(ctx, access.From(ctx), n)
	return api.ImproveEstimate{
		Trials: e.Trials, Calls: e.Calls, InputTokens: e.InputTokens, OutputTokens: e.OutputTokens, USD: spend.USD(e.Micros),
		Measured: e.Measured,
	}, err
}

type listImproveInput struct {
	httpapi.Page
	SuiteID string      `query:"suite_id" doc:"Only by this suite"`
	Status  runs.Status `query:"status" enum:"queued,running,succeeded,no_winner,failed_transient,failed_terminal,cancelled" doc:"Only those that stand here"`
}

type listImproveOutput struct {
	Runs       []api.ImproveRun   `json:"improve_runs" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listImproveInput) (listImproveOutput, error) {
	found, total, err := s.List(ctx, access.From(ctx).OrgID, Filter{
		SuiteID: in.SuiteID, Status: in.Status, Page: in.Rows(),
	})
	out := listImproveOutput{Runs: make([]api.ImproveRun, len(found)), Pagination: in.Of(total)}
	for i, r := range found {
		out.Runs[i] = newImproveOutput(r)
	}
	return out, err
}

// Path is the path parameter of an improve run.
type Path struct {
	ID string `path:"id" doc:"Id of the improve run"`
}

func (s *Service) handleGet(ctx context.Context, in Path) (oneImproveOutput, error) {
	r, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	return oneImproveOutput{newImproveOutput(r)}, err
}

func (s *Service) handleCancel(ctx context.Context, in Path) (oneImproveOutput, error) {
	r, err := s.Cancel(ctx, access.From(ctx).OrgID, in.ID)
	return oneImproveOutput{newImproveOutput(r)}, err
}
