package schedules

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// Mount adds the routes of schedules.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/eval-schedules", Status: http.StatusCreated,
		Summary: "Run a suite on a skill at fixed times",
	})
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/eval-schedules",
		Summary: "List schedules, newest first",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/eval-schedules/{id}",
		Summary: "Get a schedule with its newest runs",
	})
	httpapi.Add(a, s.handleUpdate, httpapi.Route{
		Permission: access.Write, Method: "PATCH", Path: "/api/v1/eval-schedules/{id}",
		Summary: "Change, pause or resume a schedule",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Write, Method: "DELETE", Path: "/api/v1/eval-schedules/{id}", Status: http.StatusNoContent,
		Summary: "Delete a schedule; its runs stay",
	})
	httpapi.Add(a, s.handleRun, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/eval-schedules/{id}/run", Status: http.StatusAccepted,
		Summary: "Start a run of a schedule now",
	})
}

type createInput struct {
	Body api.NewEvalSchedule
}

type scheduleOutput struct {
	Schedule api.EvalSchedule `json:"schedule" doc:"As it is now"`
}

func (s *Service) handleCreate(ctx context.Context, in createInput) (out scheduleOutput, err error) {
	b := in.Body
	sourceID, err := suites.ParseSourceID(b.SourceID)
	if err != nil {
		return out, err
	}
	n := Schedule{
		SuiteID: b.SuiteID, Subject: subject.Ref{EntryID: b.EntryID, SourceID: sourceID}, Agent: (*suites.Agent)(b.Agent),
		Trials: b.Trials, Baseline: runs.Baseline(b.Baseline), Timing: Timing{b.Every, b.Cron},
		MaxMicros: spend.Micros(b.MaxCostUSD), MaxMonthMicros: spend.Micros(b.MaxCostUSDMonth),
		Enabled: b.Enabled == nil || *b.Enabled,
	}
	if b.Version != Current {
		n.Subject.Version = b.Version
	}
	if n, err = s.Create(ctx, access.From(ctx), n); err != nil {
		return out, err
	}
	return scheduleOutput{n.Output(0, store.Now())}, nil
}

type listInput struct {
	SuiteID string `query:"suite_id" doc:"Only of this suite"`
	EntryID string `query:"entry_id" doc:"Only of this entry"`
	Cursor  string `query:"cursor" maxLength:"36" doc:"The next_cursor of an answer, for the schedules after it"`
	Limit   int    `query:"limit" default:"20" minimum:"1" maximum:"100" doc:"Schedules in an answer"`
}

type listOutput struct {
	Schedules  []api.EvalSchedule `json:"schedules" nullable:"false" doc:"Newest first"`
	NextCursor *string            `json:"next_cursor" doc:"Where the next answer begins; null at the end"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	all, more, err := s.List(ctx, access.From(ctx).OrgID, Filter{
		SuiteID: in.SuiteID, EntryID: in.EntryID, Before: in.Cursor, Limit: in.Limit,
	})
	out := listOutput{Schedules: make([]api.EvalSchedule, len(all))}
	if err != nil || len(all) == 0 {
		return out, err
	}
	spent, err := s.Spent(ctx, all...)
	for i, sch := range all {
		out.Schedules[i] = sch.Output(spent[sch.ID], store.Now())
	}
	if more {
		out.NextCursor = &all[len(all)-1].ID
	}
	return out, err
}

type schedulePath struct {
	ID string `path:"id" doc:"Id of the schedule"`
}

type detailOutput struct {
	Schedule api.EvalScheduleDetail `json:"schedule" doc:"With its newest runs"`
}

// shownRuns is how many runs a schedule is shown with.
const shownRuns = 100

func (s *Service) handleGet(ctx context.Context, in schedulePath) (out detailOutput, err error) {
	sch, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return out, err
	}
	shown, err := s.shown(ctx, sch)
	if err != nil {
		return out, err
	}
	history, err := s.History(ctx, sch, shownRuns)
	out.Schedule = api.EvalScheduleDetail{EvalSchedule: shown.Schedule, Runs: make([]api.ScheduledRun, len(history))}
	for i, r := range history {
		out.Schedule.Runs[i] = r.output()
	}
	return out, err
}

func (s *Service) shown(ctx context.Context, sch Schedule) (scheduleOutput, error) {
	spent, err := s.Spent(ctx, sch)
	return scheduleOutput{sch.Output(spent[sch.ID], store.Now())}, err
}

type updateInput struct {
	schedulePath
	Body api.EvalScheduleChange
}

func (s *Service) handleUpdate(ctx context.Context, in updateInput) (scheduleOutput, error) {
	b := in.Body
	c := Change{
		SuiteID: b.SuiteID, Agent: (*suites.Agent)(b.Agent), Trials: b.Trials, Baseline: (*runs.Baseline)(b.Baseline),
		Every: b.Every, Cron: b.Cron, MaxMicros: spend.Micros(b.MaxCostUSD), MaxMonthMicros: spend.Micros(b.MaxCostUSDMonth),
		Enabled: b.Enabled, NoAgent: slices.Contains(b.Cleared, "agent"), NoMax: slices.Contains(b.Cleared, "max_cost_usd"),
		NoMonthMax: slices.Contains(b.Cleared, "max_cost_usd_month"),
	}
	if b.Every != nil && b.Cron != nil { // even if one is empty
		return scheduleOutput{}, fault.Invalid("cron", "cron and every exclude each other: give one of them")
	}
	sch, err := s.Update(ctx, access.From(ctx), in.ID, c)
	if err != nil {
		return scheduleOutput{}, err
	}
	return s.shown(ctx, sch)
}

func (s *Service) handleDelete(ctx context.Context, in schedulePath) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx).OrgID, in.ID)
}

type runOutput struct {
	Run api.EvalReport `json:"run"`
}

func (s *Service) handleRun(ctx context.Context, in schedulePath) (runOutput, error) {
	r, err := s.Run(ctx, access.From(ctx), in.ID)
	if err != nil {
		return runOutput{}, err
	}
	report, err := s.Runs.Shown(ctx, r.OrgID, r.ID, "")
	return runOutput{report}, err
}

// Output is a schedule as the API and the pages show it, with what its month cost so far.
func (s Schedule) Output(spent int64, now time.Time) api.EvalSchedule {
	// Before the next due time notes it. The budget is there again in the next month.
	if month := monthOf(now).AddDate(0, 1, 0); s.NextAt != nil && s.MaxMonthMicros != nil && spent >= *s.MaxMonthMicros {
		s.pause(s.spentReason())
		if next, err := s.after(*s.NextAt, month.Add(-time.Microsecond)); err == nil && s.NextAt.Before(month) {
			s.NextAt = &next
		}
	}
	out := api.EvalSchedule{
		ID: s.ID, SuiteID: s.SuiteID, Version: s.Subject.Version, Skill: s.Skill, Trials: s.Trials, Baseline: string(s.Baseline),
		MaxCostUSD: spend.USD(s.MaxMicros), MaxCostUSDMonth: spend.USD(s.MaxMonthMicros), MonthUSD: *spend.USD(&spent),
		Enabled: s.Enabled, PausedReason: s.PausedReason, NextAt: httpapi.NullTime(s.NextAt), LastRunID: s.LastRunID,
		CreatedBy: s.CreatedBy, CreatedAt: httpapi.Time(s.CreatedAt), UpdatedAt: httpapi.Time(s.UpdatedAt),
	}
	if out.Version == "" {
		out.Version = Current
	}
	if s.Subject.EntryID != "" {
		out.EntryID = &s.Subject.EntryID
	} else {
		shown := sources.Prefix + s.Subject.SourceID
		out.SourceID = &shown
	}
	if s.Cron != "" {
		out.Cron = &s.Cron
	} else {
		out.Every = &s.Every
	}
	if s.Agent != nil {
		agent := api.EvalAgent(*s.Agent)
		out.Agent = &agent
	}
	if r := s.Reference; r != nil {
		out.Reference = &api.ScheduleReference{Runs: r.Runs, Trials: r.Trials, Score: r.Score()}
	}
	return out
}

func (r Run) output() api.ScheduledRun {
	return api.ScheduledRun{
		RunID: r.ID, DueAt: httpapi.NullTime(r.DueAt), Status: string(r.Status), Score: r.Score(), Trials: r.Decided,
		Counts: r.Counts, Reference: r.Reference, CostUSD: spend.USD(r.CostMicros), Changed: r.Changed,
		StartedAt: httpapi.Time(r.StartedAt), EndedAt: httpapi.NullTime(r.EndedAt),
	}
}
