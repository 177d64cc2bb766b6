package community

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
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
	Body api.NewBundle
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

// handleOverview and the handlers below report on the bundles sent to the caller as a person: they
// follow the user, not the organisation that the key belongs to.
func (s *Service) handleOverview(ctx context.Context, _ struct{}) (api.BundlesOverview, error) {
	o, err := s.Overview(ctx, access.From(ctx).UserID)
	out := api.BundlesOverview{
		TotalSubmissions: o.Submissions, TotalSkills: len(o.Skills), TotalContributors: o.Contributors,
		Skills: make([]api.BundleCount, len(o.Skills)),
	}
	for i, c := range o.Skills {
		out.Skills[i] = api.BundleCount{
			SkillName: c.SkillName, SubmissionCount: c.Submissions, ContributorCount: c.Contributors,
			LatestSubmission: httpapi.Time(c.Latest),
		}
	}
	return out, err
}

func newSource(ctx context.Context) api.BundlesSource {
	return api.BundlesSource{Source: source, CreatorID: access.From(ctx).UserID, GeneratedAt: httpapi.Time(time.Now())}
}

type skillInput struct {
	SkillName string `path:"skillName" doc:"Name of the skill"`
}

func (s *Service) handleSkill(ctx context.Context, in skillInput) (api.SkillBundles, error) {
	r, recent, err := s.Skill(ctx, access.From(ctx).UserID, in.SkillName)
	out := api.SkillBundles{BundlesSource: newSource(ctx), Recent: make([]api.SkillBundle, len(recent))}
	for i, sub := range recent {
		out.Recent[i] = api.SkillBundle{
			SubmissionID: sub.ID, ContributorHash: sub.ContributorHash, SubmittedAt: httpapi.Time(sub.SubmittedAt),
		}
	}
	if r != nil {
		out.Skill = &api.BundlesSummary{
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

func (s *Service) handleRecent(ctx context.Context, in recentInput) (api.RecentBundles, error) {
	all, err := s.Recent(ctx, access.From(ctx).UserID, in.Limit)
	out := api.RecentBundles{BundlesSource: newSource(ctx), Submissions: make([]api.Bundle, len(all))}
	for i, sub := range all {
		out.Submissions[i] = api.Bundle{
			SubmissionID: sub.ID, SkillName: sub.SkillName, ContributorHash: sub.ContributorHash,
			SubmittedAt: httpapi.Time(sub.SubmittedAt),
		}
	}
	return out, err
}
