package community

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

const (
	// maxBundle is the largest bundle in bytes. It is generous, because a client
	// whose bundle is refused may publish it in the open instead.
	maxBundle = 8 << 20
	// maxBody leaves room for the fields around the bundle.
	maxBody = maxBundle + 4<<10
	// maxValues is how many JSON values a body may hold: the four lists with
	// 10,000 elements of nine fields each.
	maxValues = 400_000
	// source names where the figures come from.
	source = "community_bundle"
)

// Mount adds the routes of community bundles.
func (s *Service) Mount(a *httpapi.API) {
	// A person sends bundles now and then. The limit is per key, so that one tool that loops
	// doesn't use up that of its organisation.
	limit := &httpapi.Limit{Requests: 60, Per: time.Hour, By: httpapi.ByKey}
	httpapi.Add(a, s.handleSubmit, httpapi.Route{
		Permission: access.TelemetryWrite,
		Method:     "POST", Path: "/api/v1/community/bundles", Status: http.StatusCreated, MaxBody: maxBody, MaxValues: maxValues,
		HandChecked: true, Limit: limit,
		Summary: "Send a contribution bundle to a creator",
	})
	httpapi.Add(a, s.handleSchema, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/community/bundles/schema",
		Produces: []httpapi.Media{{Type: "application/schema+json"}},
		Summary:  "The JSON Schema of contribution bundles",
	})
	httpapi.Add(a, s.handleOverview, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/community/bundles/overview",
		Summary: "Count the bundles sent to the caller",
	})
	httpapi.Add(a, s.handleSkill, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/community/bundles/skills/{skillName}",
		Summary: "List the bundles for one of the caller's skills",
	})
	httpapi.Add(a, s.handleRecent, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/community/bundles/recent",
		Summary: "List the newest bundles sent to the caller",
	})
}

type submitInput struct {
	// HandChecked: Submit validates the bundle with the published schema, whose messages name the
	// place in the bundle. The frame only decodes.
	Body struct {
		CreatorID string          `json:"creator_id" format:"uuid" doc:"The user whom the bundle is for, perhaps one who has not joined yet"`
		SkillName string          `json:"skill_name" minLength:"1" maxLength:"200"`
		Bundle    json.RawMessage `json:"bundle" doc:"See /api/v1/community/bundles/schema"`
	}
}

type submitOutput struct {
	Status       string `json:"status" enum:"accepted"`
	SubmissionID string `json:"submission_id" format:"uuid"`
}

// decodedCost is how much memory a byte of a bundle takes beyond that of the body:
// for the decoded text, its canonical form, and the copies of the database driver.
// It is an upper bound: 8 MiB of invalid UTF-8, which becomes three times as long,
// take 104 MiB in all.
const decodedCost = 9

func (s *Service) handleSubmit(ctx context.Context, in submitInput) (submitOutput, error) {
	// The body limit is much larger than that of other routes, so the memory that decoding takes is
	// reserved first: many large bundles at once are refused instead of exhausting the server.
	if err := httpapi.ReserveMemory(ctx, int64(len(in.Body.Bundle))*decodedCost); err != nil {
		return submitOutput{}, err
	}
	id, err := s.Submit(ctx, New{
		OrgID: access.From(ctx).OrgID, CreatorID: in.Body.CreatorID, SkillName: in.Body.SkillName, Bundle: in.Body.Bundle,
	})
	return submitOutput{"accepted", id}, err
}

func (s *Service) handleSchema(context.Context, struct{}) (httpapi.Stream, error) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		_, _ = w.Write(bundleSchema) // the client is gone if this fails
	}, nil
}

type skillCountOutput struct {
	SkillName        string       `json:"skill_name"`
	SubmissionCount  int          `json:"submission_count"`
	ContributorCount int          `json:"contributor_count"`
	LatestSubmission httpapi.Time `json:"latest_submission"`
}

type overviewOutput struct {
	TotalSubmissions  int                `json:"total_submissions"`
	TotalSkills       int                `json:"total_skills"`
	TotalContributors int                `json:"total_contributors"`
	Skills            []skillCountOutput `json:"skills" nullable:"false" doc:"The newest first"`
}

// handleOverview and the handlers below report on the bundles sent to the caller as a person: they
// follow the user, not the organisation that the key belongs to.
func (s *Service) handleOverview(ctx context.Context, _ struct{}) (overviewOutput, error) {
	o, err := s.Overview(ctx, access.From(ctx).UserID)
	out := overviewOutput{o.Submissions, len(o.Skills), o.Contributors, make([]skillCountOutput, len(o.Skills))}
	for i, c := range o.Skills {
		out.Skills[i] = skillCountOutput{c.SkillName, c.Submissions, c.Contributors, httpapi.Time(c.Latest)}
	}
	return out, err
}

// Source says what a response is based on.
type Source struct {
	Source      string       `json:"source" enum:"community_bundle"`
	CreatorID   string       `json:"creator_id" format:"uuid" doc:"The user behind the key"`
	GeneratedAt httpapi.Time `json:"generated_at"`
}

func newSource(ctx context.Context) Source {
	return Source{source, access.From(ctx).UserID, httpapi.Time(time.Now())}
}

type skillInput struct {
	SkillName string `path:"skillName" doc:"Name of the skill"`
}

type skillDetail struct {
	SkillName        string       `json:"skill_name"`
	SubmissionCount  int          `json:"submission_count"`
	ContributorCount int          `json:"contributor_count"`
	LatestSubmission httpapi.Time `json:"latest_submission"`
	TotalSessions    int64        `json:"total_sessions"`
	GradedSessions   int64        `json:"graded_sessions"`
	AveragePassRate  *float64     `json:"average_pass_rate" doc:"Weighted by graded sessions"`
	PassRateTrend    *string      `json:"pass_rate_trend" enum:"up,down,flat" doc:"The later half of the bundles beside the earlier one"`
}

type skillSubmission struct {
	SubmissionID    string       `json:"submission_id" format:"uuid"`
	ContributorHash string       `json:"contributor_hash" example:"0a1b2c3d4e5f"`
	SubmittedAt     httpapi.Time `json:"submitted_at"`
}

type skillOutput struct {
	Source
	Skill  *skillDetail      `json:"skill" doc:"Null if nothing has come"`
	Recent []skillSubmission `json:"recent_submissions" nullable:"false" doc:"The newest first, 20 at most"`
}

func (s *Service) handleSkill(ctx context.Context, in skillInput) (skillOutput, error) {
	r, recent, err := s.Skill(ctx, access.From(ctx).UserID, in.SkillName)
	out := skillOutput{Source: newSource(ctx), Recent: make([]skillSubmission, len(recent))}
	for i, sub := range recent {
		out.Recent[i] = skillSubmission{sub.ID, sub.ContributorHash, httpapi.Time(sub.SubmittedAt)}
	}
	if r != nil {
		out.Skill = &skillDetail{
			SkillName: r.SkillName, SubmissionCount: r.Submissions, ContributorCount: r.Contributors,
			LatestSubmission: httpapi.Time(r.Latest), TotalSessions: r.TotalSessions, GradedSessions: r.GradedSessions,
			AveragePassRate: r.PassRate, PassRateTrend: r.Trend,
		}
	}
	return out, err
}

type recentInput struct {
	Limit int `query:"limit" default:"20" minimum:"1" maximum:"100" doc:"How many at most"`
}

type submissionOutput struct {
	SubmissionID    string       `json:"submission_id" format:"uuid"`
	SkillName       string       `json:"skill_name"`
	ContributorHash string       `json:"contributor_hash" example:"0a1b2c3d4e5f"`
	SubmittedAt     httpapi.Time `json:"submitted_at"`
}

type recentOutput struct {
	Source
	Submissions []submissionOutput `json:"submissions" nullable:"false" doc:"The newest first"`
}

func (s *Service) handleRecent(ctx context.Context, in recentInput) (recentOutput, error) {
	all, err := s.Recent(ctx, access.From(ctx).UserID, in.Limit)
	out := recentOutput{Source: newSource(ctx), Submissions: make([]submissionOutput, len(all))}
	for i, sub := range all {
		out.Submissions[i] = submissionOutput{sub.ID, sub.SkillName, sub.ContributorHash, httpapi.Time(sub.SubmittedAt)}
	}
	return out, err
}
