package improve

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
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
	Body struct {
		SourceID      string      `json:"source_id,omitempty" doc:"A cloud source: its newest snapshot. Exactly one of source_id and entry_id"`
		EntryID       string      `json:"entry_id,omitempty" doc:"An entry of the registry: its current version"`
		SuiteID       string      `json:"suite_id" minLength:"1" doc:"The suite whose cases decide"`
		Target        edit.Target `json:"target,omitempty" enum:"description,body,both" default:"description" doc:"What to change"`
		MaxIterations int         `json:"max_iterations,omitempty" minimum:"1" maximum:"10" default:"3" doc:"How many candidates to try"`
		Holdout       float64     `json:"holdout,omitempty" minimum:"0.1" maximum:"0.9" default:"0.4" doc:"Share of the cases that are not written from: half of them choose, half of them prove"`

		MaxCostUSD *float64 `json:"max_cost_usd,omitempty" exclusiveMinimum:"0" maximum:"100000" doc:"Most that the run may cost"`
		MaxCalls   *int64   `json:"max_calls,omitempty" minimum:"1" maximum:"1000000" doc:"Most requests to models"`
		MaxMinutes *int     `json:"max_minutes,omitempty" minimum:"1" maximum:"10080" doc:"Longest time from its start"`
	}
}

// newRun is the run that the request describes.
func (in startImproveInput) newRun() (NewRun, error) {
	b := in.Body
	sourceID, err := suites.ParseSourceID(b.SourceID)
	return NewRun{
		Subject: subject.Ref{SourceID: sourceID, EntryID: b.EntryID}, SuiteID: b.SuiteID, Target: b.Target,
		MaxIterations: b.MaxIterations, Holdout: b.Holdout,
		MaxCostUSD: b.MaxCostUSD, MaxCalls: b.MaxCalls, MaxMinutes: b.MaxMinutes,
	}, err
}

// improveOutput is an improve run in an answer.
type improveOutput struct {
	ID            string             `json:"id" format:"uuid"`
	SuiteID       string             `json:"suite_id" format:"uuid"`
	Subject       runs.SubjectOutput `json:"subject"`
	Status        runs.Status        `json:"status" enum:"queued,running,succeeded,no_winner,failed_transient,failed_terminal,cancelled"`
	Target        edit.Target        `json:"target" enum:"description,body,both"`
	MaxIterations int                `json:"max_iterations"`
	Holdout       float64            `json:"holdout"`
	Seed          int64              `json:"seed"`
	MaxUSD        *float64           `json:"max_cost_usd" doc:"Most that the run may cost; null for no limit"`
	MaxCalls      *int64             `json:"max_calls"`
	MaxMinutes    *int               `json:"max_minutes"`
	Judge         judge.Description  `json:"judge" doc:"Who judges and writes"`
	Progress      runs.Progress      `json:"progress" doc:"Trials of all candidates; total is a limit until the run is over"`
	Cases         SplitOutput        `json:"cases"`
	Splits        PartsOutput        `json:"splits"`
	Cost          *runs.CostOutput   `json:"cost" doc:"Of its eval runs and of the writer, so far; null for runs of earlier versions"`
	Current       CurrentOutput      `json:"current" doc:"The version that the skill has"`
	Iterations    []IterationOutput  `json:"iterations" nullable:"false"`
	Winner        *improveWinner     `json:"winner" doc:"Null unless a candidate is better than the current version"`
	Proof         *ProofOutput       `json:"proof" doc:"The winner against the current version on cases that neither wrote nor chose it; null until it was tried"`
	StoppedBy     *limit             `json:"stopped_by" enum:"max_calls,max_iterations,max_minutes,max_cost_usd" doc:"The limit that ended the search or the run; null if none did"`
	ProposalID    *string            `json:"proposal_id" format:"uuid" doc:"Of what the winner became"`
	Error         *string            `json:"error" doc:"Why the run failed, or why it cannot have a winner"`
	CreatedAt     httpapi.Time       `json:"created_at"`
	StartedAt     *httpapi.Time      `json:"started_at"`
	EndedAt       *httpapi.Time      `json:"finished_at"`
}

// SplitOutput counts the suite's cases.
type SplitOutput struct {
	Train   int `json:"train" doc:"What candidates are written from"`
	Holdout int `json:"holdout" doc:"What only decides: those of the selection and of the proof"`
	LeftOut int `json:"left_out" doc:"Those that do not depend on what is changed, cannot be run, or ask the same again"`
}

// PartsOutput counts the cases of the three parts.
type PartsOutput struct {
	Train     int `json:"train" doc:"What candidates are written from"`
	Selection int `json:"selection" doc:"What chooses among them"`
	Proof     int `json:"proof" doc:"What the winner is tried on, once"`
}

// ProofOutput is what the proof shows.
type ProofOutput struct {
	Cases    int        `json:"cases" doc:"With a verdict of both"`
	Current  float64    `json:"current" doc:"Share of the trials that pass, the mean over the cases"`
	Winner   float64    `json:"winner"`
	Better   int        `json:"better" doc:"Cases of which more trials pass"`
	Worse    int        `json:"worse"`
	P        float64    `json:"p" doc:"Mid-p-value of the sign test"`
	Interval [2]float64 `json:"interval" doc:"Tango's interval of 95 % of the share of better cases minus that of worse ones"`
	Proved   bool       `json:"proved" doc:"p is at most 0.05, and the whole suite shows no regression"`
}

// ScoreOutput is the score of a description on one side of the split.
type ScoreOutput struct {
	Passed   int         `json:"passed"`
	Cases    int         `json:"cases" doc:"Those with a verdict"`
	Rate     *float64    `json:"rate"`
	Interval *[2]float64 `json:"interval,omitempty" doc:"Wilson interval of 95 %, of the selection"`
}

// CurrentOutput is the current version and its scores.
type CurrentOutput struct {
	Description string       `json:"description"`
	Train       *ScoreOutput `json:"train" doc:"Of all training cases; null until it is scored"`
	Holdout     *ScoreOutput `json:"holdout" doc:"Of the selection; null until it is scored"`
	Errors      int          `json:"errors" doc:"Cases without a verdict"`
}

// IterationOutput is a candidate that was tried.
type IterationOutput struct {
	N           int          `json:"n"`
	Parent      int          `json:"parent" doc:"The iteration that it was made from; 0 is the current version"`
	Partner     *int         `json:"partner" doc:"The other one that it merges; null for all others"`
	Description *string      `json:"description" doc:"Null if nothing usable was written"`
	Edits       []edit.Edit  `json:"edits" nullable:"false" doc:"That made it from its parent"`
	Reason      string       `json:"reason" doc:"The writer's"`
	Train       *ScoreOutput `json:"train" doc:"Of the cases that it was written from; null until they were tried"`
	Holdout     *ScoreOutput `json:"holdout" doc:"Of the selection; null if it was not tried on it"`
	Errors      int          `json:"errors" doc:"Cases without a verdict"`
	Problem     *string      `json:"problem" doc:"Why it cannot win"`
}

// improveWinner is the winning candidate.
type improveWinner struct {
	N           int         `json:"n"`
	Description string      `json:"description"`
	PassRate    *float64    `json:"pass_rate" doc:"Of the cases of the proof; of the held-out queries in runs of earlier versions"`
	Interval    *[2]float64 `json:"pass_rate_interval" doc:"Wilson interval of 95 %"`
}

func newImproveOutput(r Run) improveOutput {
	out := improveOutput{
		ID: r.ID, SuiteID: r.SuiteID, Subject: runs.NewSubjectOutput(r.Subject), Status: r.Status,
		Target: r.Terms.Target, MaxIterations: r.MaxIterations, Holdout: r.Holdout, Seed: r.Seed, Judge: r.Judge,
		MaxUSD: spend.USD(r.Terms.MaxMicros), MaxCalls: r.Terms.MaxCalls, MaxMinutes: r.Terms.MaxMinutes,
		Splits:   PartsOutput(r.Splits()),
		Progress: runs.Progress{Done: r.Done, Total: r.Total}, Cases: SplitOutput{r.Train, r.HeldOut, r.LeftOut},
		Current: CurrentOutput{Description: r.Description}, Iterations: []IterationOutput{},
		ProposalID: r.ProposalID, Error: r.Error,
		CreatedAt: httpapi.Time(r.CreatedAt), StartedAt: httpapi.NullTime(r.StartedAt), EndedAt: httpapi.NullTime(r.FinishedAt),
	}
	// Runs of earlier versions didn't store what they cost; a 0 would be wrong.
	if r.Terms.Trials > 0 {
		out.Cost = &runs.CostOutput{USD: r.Cost.USD(), Requests: r.Cost.Requests, Tokens: r.Cost.Tokens}
	}
	if by := r.Terms.StoppedBy; by != "" {
		out.StoppedBy = &by
	}
	if r.Proof != nil {
		proof := ProofOutput(*r.Proof)
		out.Proof = &proof
	}
	for _, it := range r.Iterations {
		var train, holdout *ScoreOutput
		// Scores are null until they are known: a candidate without cases would otherwise show 0 of
		// 0.
		if it.Description != nil && (it.Train.Cases > 0 || it.Scored()) {
			train = &ScoreOutput{Passed: it.Train.Passed, Cases: it.Train.Cases, Rate: it.Train.Rate()}
		}
		if it.Description != nil && (it.HeldOut.Cases > 0 || it.Scored() && it.Problem == nil) {
			holdout = &ScoreOutput{
				Passed: it.HeldOut.Passed, Cases: it.HeldOut.Cases, Rate: it.HeldOut.Rate(), Interval: it.HeldOut.Interval(),
			}
		}
		if it.N == 0 {
			out.Current.Train, out.Current.Holdout, out.Current.Errors = train, holdout, it.Errors
			continue
		}
		out.Iterations = append(out.Iterations, IterationOutput{
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
func newWinnerOutput(r Run, it Iteration) *improveWinner {
	out := &improveWinner{N: it.N, Description: *it.Description, PassRate: it.HeldOut.Rate(), Interval: it.HeldOut.Interval()}
	if r.Proof != nil {
		low, high := stats.Wilson(r.Proof.Winner, r.Proof.Cases)
		out.PassRate, out.Interval = &r.Proof.Winner, &[2]float64{low, high}
	}
	return out
}

type oneImproveOutput struct {
	Run improveOutput `json:"improve_run"`
}

func (s *Service) handleStart(ctx context.Context, in startImproveInput) (oneImproveOutput, error) {
	n, err := in.newRun()
	if err != nil {
		return oneImproveOutput{}, err
	}
	r, err := s.Start(ctx, access.From(ctx), n)
	return oneImproveOutput{newImproveOutput(r)}, err
}

// improveEstimate is what an improve run would need in an answer.
type improveEstimate struct {
	Trials   int      `json:"trials" doc:"If all iterations are made"`
	Calls    int64    `json:"calls" doc:"Of the judge's model; agents make more"`
	Input    int64    `json:"input_tokens"`
	Output   int64    `json:"output_tokens"`
	USD      *float64 `json:"estimate_usd" doc:"Null if a price is unknown"`
	Measured bool     `json:"measured" doc:"By the last runs of the suite; false: assumed from the length of the skill"`
}

func (s *Service) handleEstimate(ctx context.Context, in startImproveInput) (improveEstimate, error) {
	n, err := in.newRun()
	if err != nil {
		return improveEstimate{}, err
	}
	e, err := s.Estimate(ctx, access.From(ctx), n)
	return improveEstimate{e.Trials, e.Calls, e.InputTokens, e.OutputTokens, spend.USD(e.Micros), e.Measured}, err
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
