package suggestions

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// Mount adds the routes of suggestions, and the detail of a source, which
// shows them.
func (s *Service) Mount(a *httpapi.API) {
	const source = "/api/v1/cloud-sources/{sourceId}"
	httpapi.Add(a, s.handleDetail, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/cloud-sources/{id}",
		Summary: "Get a cloud source with its snapshots, reports, suggestions and reviews",
	})
	httpapi.Add(a, s.handlePending, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: source + "/eval-suggestions",
		Summary: "List pending suggestions, the best first",
	})
	httpapi.Add(a, s.handleReviews, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: source + "/eval-suggestions/reviews",
		Summary: "List reviewed suggestions, newest first",
	})
	httpapi.Add(a, s.handleReview, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: source + "/eval-suggestions/review",
		Summary: "Accept or reject a suggestion",
	})
	httpapi.Add(a, s.handleClear, httpapi.Route{
		Permission: access.Write, Method: "DELETE", Path: source + "/eval-suggestions/{suggestionId}/review",
		Status:  http.StatusNoContent,
		Summary: "Clear the review of a suggestion",
	})
	httpapi.Add(a, s.handleApply, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: source + "/eval-suggestions/{suggestionId}/apply-to-suite",
		Summary: "Append a suggestion to a saved suite",
	})
	httpapi.Add(a, s.handleApplyDrafts, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/cloud-sources/{id}/drafts/apply",
		Summary: "Add the drafts of a cloud source to a suite",
	})
	httpapi.Add(a, s.handleCreateCase, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/v1/sessions/{session_id}/cases",
		Status:  http.StatusCreated,
		Summary: "Create a test case from a session",
	})
}

func (s *Service) handleDetail(ctx context.Context, in sources.SourcePath) (api.SourceDetail, error) {
	d, err := s.Detail(ctx, access.From(ctx).OrgID, in.ID)
	return newDetailOutput(d), err
}

// SourcePath names the source of suggestions in a path.
type SourcePath struct {
	SourceID string `path:"sourceId" doc:"Id of the cloud source, with or without src_"`
}

type pendingInput struct {
	SourcePath
	httpapi.Page
}

type suggestionsOutput struct {
	Suggestions []api.Suggestion   `json:"evalSuggestions" nullable:"false"`
	Pagination  httpapi.Pagination `json:"pagination"`
}

func (s *Service) handlePending(ctx context.Context, in pendingInput) (suggestionsOutput, error) {
	found, total, err := s.Pending(ctx, access.From(ctx).OrgID, in.SourceID, in.PerPage, in.Offset())
	return suggestionsOutput{newSuggestionOutputs(found), in.Of(total)}, err
}

type reviewsInput struct {
	SourcePath
	httpapi.Page
	Status Status `query:"review_status" enum:"accepted,rejected"`
}

type reviewsOutput struct {
	Reviews    []api.Review       `json:"reviewedSuggestions" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleReviews(ctx context.Context, in reviewsInput) (reviewsOutput, error) {
	found, total, err := s.Reviews(ctx, access.From(ctx).OrgID, in.SourceID, in.Status, in.PerPage, in.Offset())
	return reviewsOutput{newReviewOutputs(found), in.Of(total)}, err
}

// newDecision is what the client sends back: the case as it was shown, so that a review is of what the
// person saw, even if the suggestion has changed since.
func newDecision(c api.ReviewedCase, suggestionID string, status Status) Decision {
	return Decision{
		SuggestionID: canonicalID(suggestionID), Status: status, Query: c.Query, ShouldTrigger: c.ShouldTrigger,
		Evidence: Evidence(c.Source), Provenance: Provenance(c.Provenance), Rationale: c.Rationale,
		ObservedCount: c.ObservedCount,
		Confidence:    c.Confidence, LastObservedAt: (*time.Time)(c.LastObservedAt), InvocationType: c.InvocationType,
	}
}

// canonicalID is a UUID as it is stored, in lower case. The schema has
// validated its format.
func canonicalID(id string) string {
	parsed, _ := uuid.Parse(id)
	return parsed.String()
}

type reviewInput struct {
	SourcePath
	Body api.NewReview
}

// suiteID is the suite that the case is to be appended to, or "".
func (in reviewInput) suiteID() (string, error) {
	if Status(in.Body.ReviewStatus) != Accepted || in.Body.AcceptTarget == nil || Target(*in.Body.AcceptTarget) != SavedSuite {
		return "", nil
	}
	if in.Body.AppliedSuiteID == nil {
		return "", fault.Invalid("applied_suite_id", "applied_suite_id is required when accept_target is saved_suite")
	}
	return canonicalID(*in.Body.AppliedSuiteID), nil
}

type reviewedOutput struct {
	Review api.Review `json:"review"`
}

func (s *Service) handleReview(ctx context.Context, in reviewInput) (out reviewedOutput, err error) {
	suiteID, err := in.suiteID()
	if err != nil {
		return out, err
	}
	d := newDecision(in.Body.ReviewedCase, in.Body.SuggestionID, Status(in.Body.ReviewStatus))
	r, err := s.Review(ctx, access.From(ctx), in.SourceID, d, suiteID)
	return reviewedOutput{newReviewOutput(r)}, err
}

// SuggestionPath names a suggestion in a path.
type SuggestionPath struct {
	SourcePath
	SuggestionID string `path:"suggestionId" format:"uuid"`
}

func (s *Service) handleClear(ctx context.Context, in SuggestionPath) (httpapi.None, error) {
	return httpapi.None{}, s.Clear(ctx, access.From(ctx).OrgID, in.SourceID, canonicalID(in.SuggestionID))
}

type applyInput struct {
	SuggestionPath
	Body api.NewSuiteCase
}

type applyOutput struct {
	Suite  api.AppliedSuite `json:"suite"`
	Review api.Review       `json:"review"`
}

func (s *Service) handleApply(ctx context.Context, in applyInput) (applyOutput, error) {
	d := newDecision(in.Body.ReviewedCase, in.SuggestionID, Accepted)
	suite, r, err := s.Apply(ctx, access.From(ctx), in.SourceID, d, canonicalID(in.Body.SuiteID))
	return applyOutput{api.AppliedSuite{ID: suite.ID, Name: suite.Name}, newReviewOutput(r)}, err
}

// newDestination is where a body sends cases.
func newDestination(suiteID string, n *api.NamedSuite) (to Destination) {
	if suiteID != "" {
		to.SuiteID = canonicalID(suiteID)
	}
	if n != nil {
		to.NewName = n.Name
	}
	return to
}

type draftsInput struct {
	sources.SourcePath
	Body api.NewDraftCases
}

func (s *Service) handleApplyDrafts(ctx context.Context, in draftsInput) (api.AppliedDrafts, error) {
	ids := make([]string, len(in.Body.DraftIDs))
	for i, id := range in.Body.DraftIDs {
		ids[i] = strings.ToLower(id)
	}
	out, err := s.ApplyDrafts(ctx, access.From(ctx), in.ID, ids, newDestination(in.Body.SuiteID, in.Body.NewSuite))
	return api.AppliedDrafts{SuiteID: out.Suite.ID, Added: out.Added, Already: out.Already}, err
}

type caseInput struct {
	SessionID string `path:"session_id" maxLength:"200" doc:"As the agent calls it"`
	Body      api.NewCase
}

func (s *Service) handleCreateCase(ctx context.Context, in caseInput) (out api.CreatedCase, err error) {
	made, err := s.CreateCase(ctx, access.From(ctx), SessionCase{
		SessionID: in.SessionID, Skill: in.Body.Skill, SourceID: in.Body.SourceID, Query: in.Body.Query,
		To: newDestination(in.Body.SuiteID, in.Body.NewSuite), ShouldNotTrigger: in.Body.Expectation == shouldNotTrigger,
	})
	if err != nil {
		return out, err
	}
	return newCreatedCase(in.SessionID, made), nil
}
