// Package suggestions proposes test cases for a source's suites: queries that
// a skill missed, sessions that failed and cases that a run failed on. A person
// reviews each; an accepted one becomes a case of a suite. It owns the tables
// source_suggestions and source_reviews.
package suggestions

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A Suggestion is a test case that telemetry or a run gives reason for.
type Suggestion struct {
	ID             string
	Ref            *string // the prompt in telemetry that Query is read from
	Query          string  // stored only for a run's case
	ShouldTrigger  bool
	Provenance     Provenance
	Rationale      string
	ObservedCount  int
	Confidence     float64 // lower bound of the Wilson interval of the failure share
	LastObservedAt time.Time
	InvocationType *string
}

// A Provenance is why a case is suggested.
type Provenance string

// The provenances.
const (
	FailedEvaluation Provenance = "failed_evaluation"
	MissedQuery      Provenance = "missed_query"
	RunRegression    Provenance = "run_regression"
	RunFailure       Provenance = "run_failure"
)

// Evidence is the data that a provenance is read from.
type Evidence string

// The kinds of evidence.
const (
	LinkedTelemetry Evidence = "linked_telemetry"
	HostedRun       Evidence = "hosted_run"
)

func (p Provenance) evidence() Evidence {
	if p == RunRegression || p == RunFailure {
		return HostedRun
	}
	return LinkedTelemetry
}

// A caseKey identifies a case: two queries with the same key are duplicates.
type caseKey struct {
	query         string // normalized
	shouldTrigger bool
}

// suggestionNamespace is the UUIDv5 namespace of suggestion ids. It must never change: ids of
// stored reviews are derived from it.
var suggestionNamespace = uuid.MustParse("5b0c9a53-0b5f-4a52-9e6d-51ad1c8e7a40")

// suggestionID is deterministic, so that a suggestion keeps its id, and with
// it its review, however often it is derived.
func suggestionID(sourceID string, c caseKey) string {
	name := sourceID + "\n" + c.query + "\n" + strconv.FormatBool(c.shouldTrigger)
	return uuid.NewSHA1(suggestionNamespace, []byte(name)).String()
}

// MaxQuery is the longest text that becomes a test case, in characters. What
// is longer is a pasted document.
const MaxQuery = 4000

// normalize makes queries comparable: it ignores case, Unicode form (NFKC) and
// white space. It returns "" for a text that cannot be a query. Two queries with the same result
// are one case.
func normalize(query string) string {
	if utf8.RuneCountInString(query) > MaxQuery {
		return ""
	}
	return strings.ToLower(text.OneLine(norm.NFKC.String(query)))
}
