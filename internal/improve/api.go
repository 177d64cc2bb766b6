package improve

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/suites"
)

// Mount adds the routes of improve runs.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleStart, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/improve-runs", Status: http.StatusAccepted,
		Summary: "Look for a better description of a skill",
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
	Body struct {
		SourceID      string  `json:"source_id,omitempty" doc:"A cloud source: its newest snapshot. Exactly one of source_id and entry_id"`
		EntryID       string  `json:"entry_id,omitempty" doc:"An entry of the registry: its current version"`
		SuiteID       string  `json:"suite_id" minLength:"1" doc:"The suite whose trigger queries decide"`
		MaxIterations int     `json:"max_iterations,omitempty" minimum:"1" maximum:"10" default:"3" doc:"How many descriptions to try"`
		Holdout       float64 `json:"holdout,omitempty" minimum:"0.1" maximum:"0.9" default:"0.4" doc:"Share of the queries that only decide"`
	}
}

// improveOutput is an improve run in an answer.
type improveOutput struct {
	ID            string             `json:"id" format:"uuid"`
	SuiteID       string             `json:"suite_id" format:"uuid"`
	Subject       runs.SubjectOutput `json:"subject"`
	Status        runs.Status        `json:"status" enum:"queued,running,succeeded,no_winner,failed_transient,failed_terminal,cancelled"`
	MaxIterations int                `json:"max_iterations"`
	Holdout       float64            `json:"holdout"`
	Seed          int64              `json:"seed"`
	Judge         judge.Description  `json:"judge" doc:"Who routes and writes"`
	Progress      runs.Progress      `json:"progress" doc:"Trials of all descriptions; total is a limit until the run is over"`
	Cases         SplitOutput        `json:"cases"`
	Current       CurrentOutput      `json:"current" doc:"The description that the skill has"`
	Iterations    []IterationOutput  `json:"iterations" nullable:"false"`
	Winner        *improveWinner     `json:"winner" doc:"Null unless a description is better on the held-out queries"`
	ProposalID    *string            `json:"proposal_id" format:"uuid" doc:"Of what the winner became"`
	Error         *string            `json:"error" doc:"Why the run failed, or why it cannot have a winner"`
	CreatedAt     httpapi.Time       `json:"created_at"`
	StartedAt     *httpapi.Time      `json:"started_at"`
	EndedAt       *httpapi.Time      `json:"finished_at"`
}

// SplitOutput counts the suite's cases.
type SplitOutput struct {
	Train   int `json:"train" doc:"What descriptions are written from"`
	Holdout int `json:"holdout" doc:"What only decides"`
	LeftOut int `json:"left_out" doc:"Of other kinds, not runnable, or the same query again"`
}

// ScoreOutput is the score of a description on one side of the split.
type ScoreOutput struct {
	Passed   int         `json:"passed"`
	Cases    int         `json:"cases" doc:"Those with a verdict"`
	Rate     *float64    `json:"rate"`
	Interval *[2]float64 `json:"interval,omitempty" doc:"Wilson interval of 95 %, of held-out queries"`
}

// CurrentOutput is the current description and its scores.
type CurrentOutput struct {
	Description string       `json:"description"`
	Train       *ScoreOutput `json:"train" doc:"Null until it is scored"`
	Holdout     *ScoreOutput `json:"holdout" doc:"Null until it is scored"`
	Errors      int          `json:"errors" doc:"Queries without a verdict"`
}

// IterationOutput is a description that was tried.
type IterationOutput struct {
	N           int          `json:"n"`
	Description *string      `json:"description" doc:"Null if nothing usable was written"`
	Reason      string       `json:"reason" doc:"The writer's"`
	Train       *ScoreOutput `json:"train"`
	Holdout     *ScoreOutput `json:"holdout"`
	Errors      int          `json:"errors" doc:"Queries without a verdict"`
	Problem     *string      `json:"problem" doc:"Why it cannot win"`
}

// improveWinner is the winning description.
type improveWinner struct {
	N           int         `json:"n"`
	Description string      `json:"description"`
	PassRate    *float64    `json:"pass_rate" doc:"Of the held-out queries"`
	Interval    *[2]float64 `json:"pass_rate_interval" doc:"Wilson interval of 95 %"`
}

func newImproveOutput(r Run) improveOutput {
	out := improveOutput{
		ID: r.ID, SuiteID: r.SuiteID, Subject: runs.NewSubjectOutput(r.Subject), Status: r.Status,
		MaxIterations: r.MaxIterations, Holdout: r.Holdout, Seed: r.Seed, Judge: r.Judge,
		Progress: runs.Progress{Done: r.Done, Total: r.Total}, Cases: SplitOutput{r.Train, r.HeldOut, r.LeftOut},
		Current: CurrentOutput{Description: r.Description}, Iterations: []IterationOutput{},
		ProposalID: r.ProposalID, Error: r.Error,
		CreatedAt: httpapi.Time(r.CreatedAt), StartedAt: httpapi.NullTime(r.StartedAt), EndedAt: httpapi.NullTime(r.FinishedAt),
	}
	for _, it := range r.Iterations {
		var train, holdout *ScoreOutput
		if it.Description != nil {
			train = &ScoreOutput{Passed: it.Train.Passed, Cases: it.Train.Cases, Rate: it.Train.Rate()}
			holdout = &ScoreOutput{
				Passed: it.HeldOut.Passed, Cases: it.HeldOut.Cases, Rate: it.HeldOut.Rate(), Interval: it.HeldOut.Interval(),
			}
		}
		if it.N == 0 {
			out.Current.Train, out.Current.Holdout, out.Current.Errors = train, holdout, it.Errors
			continue
		}
		out.Iterations = append(out.Iterations, IterationOutput{
			N: it.N, Description: it.Description, Reason: it.Reason, Train: train, Holdout: holdout,
			Errors: it.Errors, Problem: it.Problem,
		})
		if r.Winner != nil && *r.Winner == it.N {
			out.Winner = &improveWinner{
				N: it.N, Description: *it.Description, PassRate: holdout.Rate, Interval: holdout.Interval,
			}
		}
	}
	return out
}

type oneImproveOutput struct {
	Run improveOutput `json:"improve_run"`
}

func (s *Service) handleStart(ctx context.Context, in startImproveInput) (oneImproveOutput, error) {
	b := in.Body
	sourceID, err := suites.ParseSourceID(b.SourceID)
	if err != nil {
		return oneImproveOutput{}, err
	}
	r, err := s.Start(ctx, access.From(ctx), NewRun{
		Subject: subject.Ref{SourceID: sourceID, EntryID: b.EntryID}, SuiteID: b.SuiteID,
		MaxIterations: b.MaxIterations, Holdout: b.Holdout,
	})
	return oneImproveOutput{newImproveOutput(r)}, err
}

type listImproveInput struct {
	httpapi.Page
	SuiteID string      `query:"suite_id" doc:"Only by this suite"`
	Status  runs.Status `query:"status" enum:"queued,running,succeeded,no_winner,failed_transient,failed_terminal,cancelled" doc:"Only those that stand here"`
}

type listImproveOutput struct {
	Runs       []improveOutput    `json:"improve_runs" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listImproveInput) (listImproveOutput, error) {
	found, total, err := s.List(ctx, access.From(ctx).OrgID, Filter{
		SuiteID: in.SuiteID, Status: in.Status, Limit: in.PerPage, Offset: in.Offset(),
	})
	out := listImproveOutput{Runs: make([]improveOutput, len(found)), Pagination: in.Of(total)}
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
