package sources

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// An Evidence is where the reason for a suggestion was seen.
type Evidence string

// The evidence.
const (
	LinkedTelemetry Evidence = "linked_telemetry"
	HostedRun       Evidence = "hosted_run"
)

// A Provenance is why a case is suggested.
type Provenance string

// The provenances.
const (
	FailedEvaluation Provenance = "failed_evaluation"
	MissedQuery      Provenance = "missed_query"
	RunRegression    Provenance = "run_regression"
	RunFailure       Provenance = "run_failure"
)

func (p Provenance) evidence() Evidence {
	if p == RunRegression || p == RunFailure {
		return HostedRun
	}
	return LinkedTelemetry
}

// A Suggestion is a test case that something which happened suggests.
type Suggestion struct {
	ID             string
	Ref            *string // where telemetry has the text
	Query          string  // the text of a run's case, or what telemetry has when it is read
	ShouldTrigger  bool
	Provenance     Provenance
	Rationale      string
	ObservedCount  int
	Confidence     float64
	LastObservedAt time.Time
	InvocationType *string
}

// suggestionNamespace makes the ids of suggestions.
var suggestionNamespace = uuid.MustParse("5b0c9a53-0b5f-4a52-9e6d-51ad1c8e7a40")

// suggestionID is the same for the same query of a source, however it is
// written.
func suggestionID(sourceID string, c caseKey) string {
	return uuid.NewSHA1(suggestionNamespace, []byte(sourceID+"\n"+c.query+"\n"+strconv.FormatBool(c.shouldTrigger))).String()
}

// A caseKey is what makes two cases the same.
type caseKey struct {
	query         string // normalised
	shouldTrigger bool
}

// maxQuery is the longest text that makes a test case, in characters. What is
// longer is a document that was pasted.
const maxQuery = 4000

// normalize is what a query is known by: case, form of letters and white space
// do not matter. A text that makes no query is "".
func normalize(query string) string {
	if utf8.RuneCountInString(query) > maxQuery {
		return ""
	}
	return strings.ToLower(strings.Join(strings.Fields(norm.NFKC.String(query)), " "))
}

// A Status is what a person decided on a suggestion.
type Status string

// The decisions. Without one a suggestion is pending.
const (
	Accepted Status = "accepted"
	Rejected Status = "rejected"
)

// A Target is where an accepted case goes.
type Target string

// The targets.
const (
	Draft      Target = "draft"
	SavedSuite Target = "saved_suite"
)

// A Review is a person's decision on a suggestion, with the whole case.
type Review struct {
	ID             string
	OrgID          string
	SourceID       string
	AcceptTarget   *Target
	AppliedSuiteID *string
	ReviewedBy     string
	ReviewedAt     time.Time
	AppliedAt      *time.Time
	Decision
}

// A Decision is what a person says about a suggestion.
type Decision struct {
	SuggestionID   string
	Status         Status
	Query          string
	ShouldTrigger  bool
	Evidence       Evidence
	Provenance     Provenance
	Rationale      *string
	ObservedCount  *float64
	Confidence     *float64
	LastObservedAt *time.Time
	InvocationType *string
}

// check finds what a schema cannot say.
func (d Decision) check() error {
	if strings.TrimSpace(d.Query) == "" {
		return fault.Invalid("query", "query must not be empty")
	}
	return nil
}

// triggerCase is the case that an accepted suggestion becomes.
func (d Decision) triggerCase() (json.RawMessage, error) {
	c := struct {
		Kind           string  `json:"case_kind"`
		Query          string  `json:"query"`
		Expectation    string  `json:"expectation"`
		InvocationType *string `json:"invocation_type,omitempty"`
	}{"trigger_query", d.Query, "should_not_trigger", d.InvocationType}
	if d.ShouldTrigger {
		c.Expectation = "should_trigger"
	}
	return json.Marshal(c)
}

// readCase finds the query of a case, if it is one that could be suggested.
func readCase(raw json.RawMessage) (caseKey, bool) {
	var c struct{ Query, Expectation string }
	if err := json.Unmarshal(raw, &c); err != nil || c.Expectation == "" {
		return caseKey{}, false
	}
	return caseKey{normalize(c.Query), c.Expectation == "should_trigger"}, true
}
