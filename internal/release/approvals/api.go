package approvals

import (
	"cmp"
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Mount adds the routes of approvals.
func (s *Service) Mount(a *httpapi.API) {
	const version = "/api/v1/registry/{id}/versions/{version}"
	conflict := []int{http.StatusConflict}
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: version + "/approvals",
		Summary: "What people decided about a version, and what it waits for",
	})
	httpapi.Add(a, s.handleAnswer, httpapi.Route{
		// People only: an approval says that a person has looked.
		Permission: access.Write, People: true, Method: "POST", Path: version + "/approvals", Also: conflict,
		Summary: "Approve or reject a candidate; the approval that completes the count makes it current",
	})
	httpapi.Add(a, s.handleComment, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: version + "/comments", Also: conflict,
		Summary: "Comment on a candidate without a decision",
	})
	httpapi.Add(a, s.handleOverride, httpapi.Route{
		Permission: access.RegistryRollback, Plan: access.Pro, People: true, Method: "POST",
		Path: version + "/approvals/override", Also: conflict,
		Summary: "Make a candidate current without the approvals that it lacks",
	})
	httpapi.Add(a, s.handleWaiting, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/approvals",
		Summary: "Candidates that wait for your approval, newest first",
	})
}

func newAnswerOutput(a Answer) api.Approval {
	return api.Approval{
		UserID: a.User.ID, Name: a.Who(), Decision: string(a.Decision), Comment: a.Comment, Counts: a.Counts,
		CreatedAt: httpapi.Time(a.CreatedAt), Review: a.Review,
	}
}

// Who is the name of the person. Members without a name are called by their address, which
// former members no longer show.
func (a Answer) Who() string {
	if a.User.RemovedAt != nil {
		return cmp.Or(a.User.Name, "a former member")
	}
	return cmp.Or(a.User.Name, a.User.Email)
}

// Decisions appear in approvals; each with a comment also in conversation, even if it was
// replaced.
func newReviewOutput(r Review) api.VersionReview {
	out := api.VersionReview{
		EntryID: r.Entry.ID, Version: r.Version.Version, State: string(r.Version.State), Needed: r.Needed, Given: r.Given,
		Rejected: r.Rejected, SelfApproval: r.SelfApproval, Approvals: []api.Approval{}, Conversation: []api.Approval{},
		PullRequest: r.Pull,
	}
	if r.Waits != "" {
		out.WaitsFor = &r.Waits
	}
	for _, a := range r.Standing() {
		out.Approvals = append(out.Approvals, newAnswerOutput(a))
	}
	for _, a := range r.Answers {
		if a.Comment != nil {
			out.Conversation = append(out.Conversation, newAnswerOutput(a))
		}
	}
	return out
}

func (s *Service) handleGet(ctx context.Context, in registry.VersionPath) (api.VersionReview, error) {
	r, err := s.Review(ctx, access.From(ctx).OrgID, in.ID, in.Version)
	return newReviewOutput(r), err
}

type answerInput struct {
	registry.VersionPath
	Body struct {
		Decision Decision `json:"decision" enum:"approve,reject"`
		Comment  string   `json:"comment,omitempty" example:"Reads well, and the evals agree"`
	}
}

func (s *Service) handleAnswer(ctx context.Context, in answerInput) (api.VersionReview, error) {
	r, err := s.Answer(ctx, access.From(ctx), in.ID, in.Version, in.Body.Decision, in.Body.Comment)
	return newReviewOutput(r), err
}

type commentInput struct {
	registry.VersionPath
	Body struct {
		Comment string `json:"comment" example:"Why did the third step go?"`
	}
}

func (s *Service) handleComment(ctx context.Context, in commentInput) (api.VersionReview, error) {
	r, err := s.AddComment(ctx, access.From(ctx), in.ID, in.Version, in.Body.Comment)
	return newReviewOutput(r), err
}

type overrideInput struct {
	registry.VersionPath
	Body struct {
		Reason string `json:"reason" example:"the reviewers are on leave, and the current version leaks"`
	}
}

func (s *Service) handleOverride(ctx context.Context, in overrideInput) (api.VersionReview, error) {
	r, err := s.Override(ctx, access.From(ctx), in.ID, in.Version, in.Body.Reason)
	return newReviewOutput(r), err
}

type waitingOutput struct {
	Waiting []api.WaitingCandidate `json:"waiting" nullable:"false" doc:"At most 200"`
}

func (s *Service) handleWaiting(ctx context.Context, _ httpapi.None) (waitingOutput, error) {
	all, err := s.Waiting(ctx, access.From(ctx))
	out := waitingOutput{Waiting: make([]api.WaitingCandidate, len(all))}
	for i, r := range all {
		out.Waiting[i] = api.WaitingCandidate{
			EntryID: r.Entry.ID, Name: r.Entry.Name, Version: r.Version.Version, Needed: r.Needed, Given: r.Given,
			GateID: r.Version.GateID, PushedAt: httpapi.Time(r.Version.PushedAt), PushedBy: r.Version.PushedBy,
		}
		if r.Entry.CurrentVersion != "" {
			out.Waiting[i].Current = &all[i].Entry.CurrentVersion
		}
	}
	return out, err
}
