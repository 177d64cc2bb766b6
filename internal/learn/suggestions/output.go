package suggestions

import (
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

func newSuggestionOutputs(suggestions []Suggestion) []api.Suggestion {
	out := make([]api.Suggestion, len(suggestions))
	for i, s := range suggestions {
		out[i] = api.Suggestion{
			ID: s.ID, Query: s.Query, ShouldTrigger: s.ShouldTrigger, Source: string(s.Provenance.evidence()),
			Provenance: string(s.Provenance), Rationale: s.Rationale, ObservedCount: s.ObservedCount, Confidence: s.Confidence,
			LastObservedAt: httpapi.Time(s.LastObservedAt), InvocationType: s.InvocationType, ReviewStatus: "pending",
		}
	}
	return out
}

func newReviewOutput(r Review) api.Review {
	return api.Review{
		ID: r.ID, SuggestionID: r.SuggestionID, ReviewStatus: string(r.Status), AcceptTarget: (*string)(r.AcceptTarget),
		AppliedSuiteID: r.AppliedSuiteID, Query: r.Query, ShouldTrigger: r.ShouldTrigger, Source: string(r.Evidence),
		Provenance: string(r.Provenance), Rationale: r.Rationale, ObservedCount: r.ObservedCount, Confidence: r.Confidence,
		LastObservedAt: httpapi.NullTime(r.LastObservedAt), InvocationType: r.InvocationType,
		ReviewedBy: r.ReviewedBy, ReviewedAt: httpapi.Time(r.ReviewedAt), AppliedToSuiteAt: httpapi.NullTime(r.AppliedAt),
	}
}

func newReviewOutputs(reviews []Review) []api.Review {
	out := make([]api.Review, len(reviews))
	for i, r := range reviews {
		out[i] = newReviewOutput(r)
	}
	return out
}

func newCreatedCase(sessionID string, m MadeCase) api.CreatedCase {
	c := api.SessionCase{SessionID: sessionID, Skill: m.Skill.Name, Query: m.Query, Expectation: m.expectation()}
	if m.Review != nil {
		c.SuggestionID, c.SourceID = &m.Review.SuggestionID, &m.Review.SourceID
	}
	if m.Suite != nil {
		c.SuiteID, c.CaseID = &m.Suite.ID, &m.Suite.Cases[m.N].ID
	}
	return api.CreatedCase{Case: c, SuiteID: c.SuiteID, Skill: c.Skill}
}

func newDetailOutput(d Detail) api.SourceDetail {
	out := sources.NewDetailOutput(d.Detail)
	out.Suggestions, out.SuggestionCount = newSuggestionOutputs(d.Pending), d.PendingCount
	out.Reviews, out.ReviewCount = newReviewOutputs(d.Reviews), d.ReviewCount
	out.Suites = make([]api.SourceSuite, len(d.Suites))
	for i, s := range d.Suites {
		out.Suites[i] = api.SourceSuite{ID: s.ID, Name: s.Name, VerifierKind: string(s.VerifierKind)}
	}
	return out
}
