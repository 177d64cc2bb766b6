package grades

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// Mount adds the routes of grades. A person grades with the permission write, and
// pays for a judge with admin.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleGrade, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/v1/sessions/{session_id}/grades", Status: http.StatusCreated,
		Summary: "Grade a session",
	})
	httpapi.Add(a, s.handleGrader, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/v1/skills/{skill_id}/grader",
		Summary: "How the sessions of a skill are graded",
	})
	httpapi.Add(a, s.handleSetGrader, httpapi.Route{
		Permission: access.Admin, Method: "PUT", Path: "/v1/skills/{skill_id}/grader",
		Summary: "Set how the sessions of a skill are graded",
	})
	httpapi.Add(a, s.handleSharedGrader, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/settings/grader",
		Summary: "How the sessions of skills without a grader of their own are graded",
	})
	httpapi.Add(a, s.handleSetSharedGrader, httpapi.Route{
		Permission: access.Admin, Method: "PUT", Path: "/api/v1/settings/grader",
		Summary: "Set how the sessions of skills without a grader of their own are graded",
	})
	httpapi.Add(a, s.handleCalibration, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/v1/skills/{skill_id}/calibration",
		Summary: "How often the judge agrees with people",
	})
	httpapi.Add(a, s.handleFailures, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/v1/skills/{skill_id}/failures",
		Summary: "Why sessions of a skill failed, by reason",
	})
}

// gradeInput is a person's verdict on a session. The path has the agent's own id,
// since that is what people and tools know.
type gradeInput struct {
	SessionID string `path:"session_id" maxLength:"200" doc:"As the agent calls it"`
	Body      struct {
		Skill   string `json:"skill" minLength:"1" maxLength:"200" example:"pdf-tables" doc:"Id or name of a skill that the session used"`
		Verdict string `json:"verdict" enum:"pass,fail"`
		Reason  string `json:"reason,omitempty" maxLength:"2000" doc:"Why; shown with the grade"`
	}
}

type gradeOutput struct {
	Grade api.Grade `json:"grade"`
}

// handleGrade stores the caller's verdict. A second grade of the same person
// replaces the first.
func (s *Service) handleGrade(ctx context.Context, in gradeInput) (gradeOutput, error) {
	g, skill, err := s.Grade(ctx, access.From(ctx), Verdict{
		SessionID: in.SessionID, Skill: in.Body.Skill, Passed: in.Body.Verdict == "pass", Reason: in.Body.Reason,
	})
	return gradeOutput{sessions.NewGradeOutput(in.SessionID, skill, g)}, err
}

type skillInput struct {
	SkillID string `path:"skill_id" doc:"Id or name of the skill"`
}

type graderOutput struct {
	Grader api.Grader `json:"grader"`
}

// newGraderOutput converts a grader.
func newGraderOutput(g Grader) graderOutput {
	return graderOutput{api.Grader{
		Enabled: g.Enabled, Expectations: g.Expectations, SamplePerDay: g.SamplePerDay, MaxCostUSD: g.MaxCostUSD,
		Threshold: g.Threshold, Inherited: g.Inherited, Unusable: g.Unusable,
	}}
}

func (s *Service) handleGrader(ctx context.Context, in skillInput) (graderOutput, error) {
	g, err := s.Grader(ctx, access.From(ctx).OrgID, in.SkillID)
	return newGraderOutput(g), err
}

// sharedGraderOutput is the organisation's grader. Waiting lets a client wait for
// the grades of what it has reported.
type sharedGraderOutput struct {
	Grader  api.Grader `json:"grader"`
	Waiting int        `json:"waiting" doc:"Sessions that any grader of the organisation will grade within minutes; 1000 stands for more"`
}

func (s *Service) handleSharedGrader(ctx context.Context, _ struct{}) (sharedGraderOutput, error) {
	orgID := access.From(ctx).OrgID
	g, err := s.SharedGrader(ctx, orgID)
	if err != nil {
		return sharedGraderOutput{}, err
	}
	waiting, err := countWaiting(ctx, s.DB, orgID, store.Now().Add(runTime), maxWaiting)
	return sharedGraderOutput{newGraderOutput(g).Grader, waiting}, err
}

// maxWaiting is up to where the sessions that wait are counted.
const maxWaiting = 1000

// graderBody replaces a grader; what is left out has its default. It takes what the
// route answers, too.
type graderBody struct {
	Grader       *graderBody `json:"grader,omitempty" doc:"All of these fields, instead of beside it"`
	Enabled      bool        `json:"enabled,omitempty"`
	Expectations []string    `json:"expectations,omitempty" maxItems:"50" doc:"What a session of the skill must show; without any a draft from the skill itself is used"`
	// Raw, since null is not the same as leaving it out.
	SamplePerDay json.RawMessage `json:"sample_per_day,omitempty" doc:"Sessions of a skill that the judge reads in a day, 20 by default; null: all"`
	MaxCostUSD   json.RawMessage `json:"max_cost_usd_per_day,omitempty" doc:"What the judge may cost in a day, 1 by default; null: no limit"`
	Threshold    *float64        `json:"threshold,omitempty" minimum:"0" maximum:"1" doc:"Share of the expectations from which on a session passed, 1 by default"`
}

// grader applies the body to the default grader. Numbers that do not parse are
// refused by name; limits are checked by check.
func (b graderBody) grader() (Grader, error) {
	if b.Grader != nil {
		b = *b.Grader
	}
	g := defaultGrader()
	g.Enabled = b.Enabled
	if b.Expectations != nil {
		g.Expectations = b.Expectations
	}
	if b.Threshold != nil {
		g.Threshold = *b.Threshold
	}
	if b.SamplePerDay != nil && json.Unmarshal(b.SamplePerDay, &g.SamplePerDay) != nil {
		return g, fault.Invalid("sample_per_day", "sample_per_day must be a whole number, or null")
	}
	if b.MaxCostUSD != nil && json.Unmarshal(b.MaxCostUSD, &g.MaxCostUSD) != nil {
		return g, fault.Invalid("max_cost_usd_per_day", "max_cost_usd_per_day must be a number, or null")
	}
	return g, g.check()
}

type setGraderInput struct {
	SkillID string `path:"skill_id" doc:"Id or name of the skill"`
	Body    graderBody
}

func (s *Service) handleSetGrader(ctx context.Context, in setGraderInput) (graderOutput, error) {
	g, err := in.Body.grader()
	if err != nil {
		return graderOutput{}, err
	}
	if err := s.SetGrader(ctx, access.From(ctx), in.SkillID, g); err != nil {
		return graderOutput{}, err
	}
	// The answer has what a GET would have, e.g. the draft.
	return s.handleGrader(ctx, skillInput{in.SkillID})
}

type setSharedGraderInput struct {
	Body graderBody
}

func (s *Service) handleSetSharedGrader(ctx context.Context, in setSharedGraderInput) (graderOutput, error) {
	g, err := in.Body.grader()
	if err != nil {
		return graderOutput{}, err
	}
	c := access.From(ctx)
	if err := s.SetGrader(ctx, c, "", g); err != nil {
		return graderOutput{}, err
	}
	g, err = s.SharedGrader(ctx, c.OrgID)
	return newGraderOutput(g), err
}

func (s *Service) handleCalibration(ctx context.Context, in skillInput) (api.Calibration, error) {
	c, err := s.Calibration(ctx, access.From(ctx).OrgID, in.SkillID)
	return api.Calibration{
		Pairs: c.Pairs, Agreement: c.Agreement, Interval: c.Interval, AgreementInterval: c.Interval,
		AgreementOnFails: c.OnFails, Kappa: c.Kappa, KappaInterval: c.KappaInterval,
	}, err
}

type failuresInput struct {
	SkillID string `path:"skill_id" doc:"Id or name of the skill"`
	Days    int    `query:"days" default:"30" minimum:"1" maximum:"365" doc:"Window in days, today included"`
}

type failuresOutput struct {
	Groups []api.FailureGroup `json:"groups" nullable:"false" doc:"The most frequent first, at most 50"`
}

func (s *Service) handleFailures(ctx context.Context, in failuresInput) (failuresOutput, error) {
	groups, err := s.Failures(ctx, access.From(ctx).OrgID, in.SkillID, in.Days)
	return failuresOutput{columnOf(groups, newGroupOutput)}, err
}

func newGroupOutput(g Group) api.FailureGroup {
	out := api.FailureGroup{
		Key: g.Key, Label: g.Title(), Reason: g.Reason, Count: g.Count, Sessions: append([]string{}, g.Sessions...),
		LastAt: httpapi.Time(g.LastAt),
	}
	if g.Label != "" {
		out.LabelledBy = new(string(basis.Judge))
	}
	return out
}
