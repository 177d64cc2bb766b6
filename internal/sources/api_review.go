package sources

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// ReviewPath names the source of suggestions in a path.
type ReviewPath struct {
	SourceID string `path:"sourceId" doc:"Id of the cloud source, with or without src_"`
}

// CaseInput is what all that is said of a suggestion has in common.
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

func (c CaseInput) decision(suggestionID string, status Status) Decision {
	id, _ := parseUUID(suggestionID) // the schema has checked its form
	return Decision{
		SuggestionID: id, Status: status, Query: c.Query, ShouldTrigger: c.ShouldTrigger, Evidence: c.Evidence,
		Provenance: c.Provenance, Rationale: c.Rationale, ObservedCount: c.ObservedCount, Confidence: c.Confidence,
		LastObservedAt: (*time.Time)(c.LastObservedAt), InvocationType: c.InvocationType,
	}
}

type reviewInput struct {
	ReviewPath
	Body struct {
		CaseInput
		SuggestionID   string  `json:"suggestion_id" format:"uuid"`
		Status         Status  `json:"review_status" enum:"accepted,rejected"`
		AcceptTarget   *Target `json:"accept_target,omitempty" enum:"draft,saved_suite" doc:"Of an accepted case; draft when omitted"`
		AppliedSuiteID *string `json:"applied_suite_id,omitempty" format:"uuid" doc:"Required with the target saved_suite"`
	}
}

// suite is the suite that the case shall be appended to, or "".
func (in reviewInput) suite() (string, error) {
	if in.Body.Status != Accepted || in.Body.AcceptTarget == nil || *in.Body.AcceptTarget != SavedSuite {
		return "", nil
	}
	if in.Body.AppliedSuiteID == nil {
		return "", fault.Invalid("applied_suite_id", "applied_suite_id is required when accept_target is saved_suite")
	}
	return *lower(in.Body.AppliedSuiteID), nil
}

type reviewedOutput struct {
	Review reviewOutput `json:"review"`
}

func (s *Service) review(ctx context.Context, in reviewInput) (out reviewedOutput, err error) {
	suiteID, err := in.suite()
	if err != nil {
		return out, err
	}
	d := in.Body.decision(in.Body.SuggestionID, in.Body.Status)
	r, err := s.Review(ctx, access.From(ctx), in.SourceID, d, suiteID)
	return reviewedOutput{newReviewOutput(r)}, err
}

// SuggestionPath names a suggestion in a path.
type SuggestionPath struct {
	ReviewPath
	SuggestionID string `path:"suggestionId" format:"uuid"`
}

func (s *Service) clear(ctx context.Context, in SuggestionPath) (httpapi.None, error) {
	id, _ := parseUUID(in.SuggestionID)
	return httpapi.None{}, s.Clear(ctx, access.From(ctx).OrgID, in.SourceID, id)
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

func (s *Service) apply(ctx context.Context, in applyInput) (applyOutput, error) {
	suiteID, _ := parseUUID(in.Body.SuiteID)
	suite, r, err := s.Apply(ctx, access.From(ctx), in.SourceID, in.Body.decision(in.SuggestionID, Accepted), suiteID)
	return applyOutput{appliedSuite{suite.ID, suite.Name}, newReviewOutput(r)}, err
}

type suggestionsInput struct {
	ReviewPath
	httpapi.Page
}

type suggestionsOutput struct {
	Suggestions []suggestionOutput `json:"evalSuggestions" nullable:"false"`
	Pagination  httpapi.Pagination `json:"pagination"`
}

func (s *Service) suggestions(ctx context.Context, in suggestionsInput) (suggestionsOutput, error) {
	found, total, err := s.Pending(ctx, access.From(ctx).OrgID, in.SourceID, in.PerPage, in.Offset())
	return suggestionsOutput{newSuggestionOutputs(found), in.Of(total)}, err
}

type reviewsInput struct {
	ReviewPath
	httpapi.Page
	Status Status `query:"review_status" enum:"accepted,rejected"`
}

type reviewsOutput struct {
	Reviews    []reviewOutput     `json:"reviewedSuggestions" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) reviews(ctx context.Context, in reviewsInput) (reviewsOutput, error) {
	found, total, err := s.Reviews(ctx, access.From(ctx).OrgID, in.SourceID, in.Status, in.PerPage, in.Offset())
	return reviewsOutput{newReviewOutputs(found), in.Of(total)}, err
}
