package suggestions

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

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
	httpapi.Add(a, s.handleCreateCase, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/v1/sessions/{session_id}/cases",
		Status:  http.StatusCreated,
		Summary: "Create a test case from a session",
	})
}

func (s *Service) handleDetail(ctx context.Context, in sources.SourcePath) (detailOutput, error) {
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
	Suggestions []suggestionOutput `json:"evalSuggestions" nullable:"false"`
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
	Reviews    []reviewOutput     `json:"reviewedSuggestions" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleReviews(ctx context.Context, in reviewsInput) (reviewsOutput, error) {
	found, total, err := s.Reviews(ctx, access.From(ctx).OrgID, in.SourceID, in.Status, in.PerPage, in.Offset())
	return reviewsOutput{newReviewOutputs(found), in.Of(total)}, err
}

// CaseInput is the case in the body of a review.
type CaseInput struct {
	Query          string        `json:"query" minLength:"1" maxLength:"10000"`
	ShouldTrigger  bool          `json:"should_trigger"`
	Evidence       Evidence      `json:"source" enum:"linked_telemetry,hosted_run"`
	Provenance     Provenance    `json:"provenance" enum:"failed_evaluation,missed_query,run_regression,run_failure"`
	Rationale      *string       `json:"rationale,omitempty" maxLength:"10000"`
	ObservedCount  *float64      `json:"observed_count,omitempty" minimum:"0"`
	Confidence     *float64      `json:"confidence,omitempty" minimum:"0" maximum:"1"`
	LastObservedAt *httpapi.Time `json:"last_observed_at,omitempty"`
	InvocationType *string       `json:"invocation_type,omitempty" maxLength:"64" doc:"For positive trigger cases"`
}

// decision is what the client sends back: the case as it was shown, so that a review is of what the
// person saw, even if the suggestion has changed since.
func (c CaseInput) decision(suggestionID string, status Status) Decision {
	return Decision{
		SuggestionID: canonicalID(suggestionID), Status: status, Query: c.Query, ShouldTrigger: c.ShouldTrigger,
		Evidence: c.Evidence, Provenance: c.Provenance, Rationale: c.Rationale, ObservedCount: c.ObservedCount,
		Confidence: c.Confidence, LastObservedAt: (*time.Time)(c.LastObservedAt), InvocationType: c.InvocationType,
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
	Body struct {
		CaseInput
		SuggestionID   string  `json:"suggestion_id" format:"uuid"`
		Status         Status  `json:"review_status" enum:"accepted,rejected"`
		AcceptTarget   *Target `json:"accept_target,omitempty" enum:"draft,saved_suite" doc:"Of an accepted case; draft when omitted"`
		AppliedSuiteID *string `json:"applied_suite_id,omitempty" format:"uuid" doc:"Required with the target saved_suite"`
	}
}

// suiteID is the suite that the case is to be appended to, or "".
func (in reviewInput) suiteID() (string, error) {
	if in.Body.Status != Accepted || in.Body.AcceptTarget == nil || *in.Body.AcceptTarget != SavedSuite {
		return "", nil
	}
	if in.Body.AppliedSuiteID == nil {
		return "", fault.Invalid("applied_suite_id", "applied_suite_id is required when accept_target is saved_suite")
	}
	return canonicalID(*in.Body.AppliedSuiteID), nil
}

type reviewedOutput struct {
	Review reviewOutput `json:"review"`
}

func (s *Service) handleReview(ctx context.Context, in reviewInput) (out reviewedOutput, err error) {
	suiteID, err := in.suiteID()
	if err != nil {
		return out, err
	}
	d := in.Body.decision(in.Body.SuggestionID, in.Body.Status)
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
	Body struct {
		CaseInput
		SuiteID string `json:"suite_id" format:"uuid"`
	}
}

type appliedSuite struct {
	ID   string `json:"id" format:"uuid"`
	Name string `json:"name"`
}

type applyOutput struct {
	Suite  appliedSuite `json:"suite"`
	Review reviewOutput `json:"review"`
}

func (s *Service) handleApply(ctx context.Context, in applyInput) (applyOutput, error) {
	d := in.Body.decision(in.SuggestionID, Accepted)
	suite, r, err := s.Apply(ctx, access.From(ctx), in.SourceID, d, canonicalID(in.Body.SuiteID))
	return applyOutput{appliedSuite{suite.ID, suite.Name}, newReviewOutput(r)}, err
}

type caseInput struct {
	SessionID string `path:"session_id" maxLength:"200" doc:"As the agent calls it"`
	Body      struct {
		Skill       string `json:"skill,omitempty" maxLength:"200" doc:"Id or name; the one that the session failed, or else used, when omitted"`
		SourceID    string `json:"source_id,omitempty" maxLength:"40" doc:"A cloud source of the skill; that of the suite, or else the newest, when omitted"`
		SuiteID     string `json:"suite_id,omitempty" format:"uuid" doc:"A suite of the source; the case becomes a draft when omitted"`
		Query       string `json:"query,omitempty" maxLength:"4000" doc:"The first prompt of the session when omitted, if it is kept and the caller may read it"`
		Expectation string `json:"expectation,omitempty" enum:"should_trigger,should_not_trigger" default:"should_trigger"`
	}
}

type sessionCaseOutput struct {
	SuggestionID string  `json:"suggestion_id" format:"uuid" doc:"Of the accepted suggestion: a review of it, or its deletion, undoes the case"`
	SessionID    string  `json:"session_id"`
	Skill        string  `json:"skill" example:"pdf-tables"`
	SourceID     string  `json:"source_id" format:"uuid"`
	SuiteID      *string `json:"suite_id" format:"uuid" doc:"Null for a draft"`
	Query        string  `json:"query"`
	Expectation  string  `json:"expectation" enum:"should_trigger,should_not_trigger"`
}

type caseOutput struct {
	Case sessionCaseOutput `json:"case"`
}

func (s *Service) handleCreateCase(ctx context.Context, in caseInput) (caseOutput, error) {
	suiteID := in.Body.SuiteID
	if suiteID != "" {
		suiteID = canonicalID(suiteID)
	}
	r, skill, err := s.CreateCase(ctx, access.From(ctx), SessionCase{
		SessionID: in.SessionID, Skill: in.Body.Skill, SourceID: in.Body.SourceID, SuiteID: suiteID, Query: in.Body.Query,
		ShouldNotTrigger: in.Body.Expectation == shouldNotTrigger,
	})
	return caseOutput{sessionCaseOutput{
		SuggestionID: r.SuggestionID, SessionID: in.SessionID, Skill: skill.Name, SourceID: r.SourceID, SuiteID: r.AppliedSuiteID,
		Query: r.Query, Expectation: r.expectation(),
	}}, err
}
