package suggestions

import (
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

type suggestionOutput struct {
	ID             string       `json:"id" format:"uuid"`
	Query          string       `json:"query"`
	ShouldTrigger  bool         `json:"shouldTrigger"`
	Evidence       Evidence     `json:"source" enum:"linked_telemetry,hosted_run"`
	Provenance     Provenance   `json:"provenance" enum:"failed_evaluation,missed_query,run_regression,run_failure"`
	Rationale      string       `json:"rationale"`
	ObservedCount  int          `json:"observedCount"`
	Confidence     float64      `json:"confidence" doc:"Lower end of the 95 % Wilson interval of the share that went wrong"`
	LastObservedAt httpapi.Time `json:"lastObservedAt"`
	InvocationType *string      `json:"invocationType,omitempty"`
	ReviewStatus   string       `json:"reviewStatus" enum:"pending"`
}

func newSuggestionOutputs(suggestions []Suggestion) []suggestionOutput {
	out := make([]suggestionOutput, len(suggestions))
	for i, s := range suggestions {
		out[i] = suggestionOutput{
			s.ID, s.Query, s.ShouldTrigger, s.Provenance.evidence(), s.Provenance, s.Rationale, s.ObservedCount, s.Confidence,
			httpapi.Time(s.LastObservedAt), s.InvocationType, "pending",
		}
	}
	return out
}

type reviewOutput struct {
	ID             string        `json:"id" format:"uuid"`
	SuggestionID   string        `json:"suggestionId" format:"uuid"`
	Status         Status        `json:"reviewStatus" enum:"accepted,rejected"`
	AcceptTarget   *Target       `json:"acceptTarget" enum:"draft,saved_suite" doc:"Null when rejected"`
	AppliedSuiteID *string       `json:"appliedSuiteId"`
	Query          string        `json:"query"`
	ShouldTrigger  bool          `json:"shouldTrigger"`
	Evidence       Evidence      `json:"source" enum:"linked_telemetry,hosted_run"`
	Provenance     Provenance    `json:"provenance" enum:"failed_evaluation,missed_query,run_regression,run_failure"`
	Rationale      *string       `json:"rationale,omitempty"`
	ObservedCount  *float64      `json:"observedCount,omitempty"`
	Confidence     *float64      `json:"confidence,omitempty"`
	LastObservedAt *httpapi.Time `json:"lastObservedAt,omitempty"`
	InvocationType *string       `json:"invocationType,omitempty"`
	ReviewedBy     string        `json:"reviewedBy" format:"uuid"`
	ReviewedAt     httpapi.Time  `json:"reviewedAt"`
	AppliedAt      *httpapi.Time `json:"appliedToSuiteAt"`
}

func newReviewOutput(r Review) reviewOutput {
	return reviewOutput{
		r.ID, r.SuggestionID, r.Status, r.AcceptTarget, r.AppliedSuiteID, r.Query, r.ShouldTrigger, r.Evidence, r.Provenance,
		r.Rationale, r.ObservedCount, r.Confidence, httpapi.NullTime(r.LastObservedAt), r.InvocationType,
		r.ReviewedBy, httpapi.Time(r.ReviewedAt), httpapi.NullTime(r.AppliedAt),
	}
}

func newReviewOutputs(reviews []Review) []reviewOutput {
	out := make([]reviewOutput, len(reviews))
	for i, r := range reviews {
		out[i] = newReviewOutput(r)
	}
	return out
}

type detailOutput struct {
	sources.DetailOutput
	Suggestions     []suggestionOutput `json:"evalSuggestions" nullable:"false" doc:"Pending, the best 200"`
	SuggestionCount int                `json:"evalSuggestionCount" doc:"All that are pending"`
	Reviews         []reviewOutput     `json:"reviewedSuggestions" nullable:"false" doc:"The newest 200, newest first"`
	ReviewCount     int                `json:"reviewedSuggestionCount"`
	Suites          []suite            `json:"evalSuites" nullable:"false"`
}

// A suite is a saved suite of a source. The OpenAPI document has its name.
type suite struct {
	ID           string              `json:"id" format:"uuid"`
	Name         string              `json:"name"`
	VerifierKind suites.VerifierKind `json:"verifierKind" example:"llm_judge"`
}

func newDetailOutput(d Detail) detailOutput {
	out := detailOutput{
		DetailOutput: sources.NewDetailOutput(d.Detail),
		Suggestions:  newSuggestionOutputs(d.Pending), SuggestionCount: d.PendingCount,
		Reviews: newReviewOutputs(d.Reviews), ReviewCount: d.ReviewCount,
		Suites: make([]suite, len(d.Suites)),
	}
	for i, s := range d.Suites {
		out.Suites[i] = suite{s.ID, s.Name, s.VerifierKind}
	}
	return out
}
