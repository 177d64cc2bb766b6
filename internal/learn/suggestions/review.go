package suggestions

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Review is a person's decision on a suggestion, with the whole case.
type Review struct {
	ID             string
	OrgID          string
	SourceID       string
	AcceptTarget   *Target // nil when rejected
	AppliedSuiteID *string
	ReviewedBy     string
	ReviewedAt     time.Time
	AppliedAt      *time.Time
	Decision
}

// A Decision is a status and a copy of the case that it is about. The copy
// outlives the suggestion, whose text goes with the prompt that it came from.
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

// A Status is what a person decided. A suggestion without one is pending.
type Status string

// The statuses.
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

// validate checks what the API's schema cannot express.
func (d Decision) validate() error {
	if strings.TrimSpace(d.Query) == "" {
		return fault.Invalid("query", "query must not be empty")
	}
	return nil
}

// triggerCase encodes the case that an accepted suggestion becomes, e.g.
// {"case_kind":"trigger_query","query":"...","expectation":"should_trigger"}.
func (d Decision) triggerCase() (json.RawMessage, error) {
	c := struct {
		Kind           string  `json:"case_kind"`
		Query          string  `json:"query"`
		Expectation    string  `json:"expectation"`
		InvocationType *string `json:"invocation_type,omitempty"`
	}{"trigger_query", d.Query, d.expectation(), d.InvocationType}
	return json.Marshal(c)
}

// The expectations of a case.
const (
	shouldTrigger    = "should_trigger"
	shouldNotTrigger = "should_not_trigger"
)

func (d Decision) expectation() string {
	if d.ShouldTrigger {
		return shouldTrigger
	}
	return shouldNotTrigger
}

// parseTriggerCase returns the key of a suite's case. It reports false for a
// case that is not about triggering.
func parseTriggerCase(raw json.RawMessage) (caseKey, bool) {
	var c struct{ Query, Expectation string }
	if err := json.Unmarshal(raw, &c); err != nil || c.Expectation == "" {
		return caseKey{}, false
	}
	return caseKey{normalize(c.Query), c.Expectation == shouldTrigger}, true
}
