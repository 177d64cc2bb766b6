package telemetry

import (
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A Reading is the content of a body before it is stored.
type Reading struct {
	skills.Report
	Requests []costs.Request
	Marks    []costs.Mark
	Events   []sessions.Event
	Accepted int
	Rejected []rejection
}

// ReadPush reads the body of a push.
func ReadPush(raw []byte, now time.Time) (Reading, error) {
	var e envelope
	if err := decodeEnvelope(raw, &e); err != nil {
		return Reading{}, err
	}
	b := newReader(access.Caller{OrgID: "org", UserID: "user"}, now).read(e)
	var groups pointGroup
	for _, r := range b.reports {
		b.observations = append(b.observations, groups.Resolve(r))
	}
	report := skills.Report{Observations: b.observations, Gradings: b.gradings}
	return Reading{report, b.requests, b.marks, b.events, b.accepted, b.rejected}, nil
}

// MaxPart is how many items one transaction ingests.
const MaxPart = maxPart

// CanonicalPushID parses a push_id.
var CanonicalPushID = canonicalPushID

// EachElement calls fn with every element of an array, as the reader of a push does.
func EachElement[T any](array json.RawMessage, fn func(i int, element *T, text json.RawMessage)) error {
	return eachElement(array, fn)
}

// How producers report tokens.
var (
	ErrNoTokens = errNoTokens
	ClaudeUsage = claudeUsage
	CodexUsage  = codexUsage
	GeminiUsage = geminiUsage
	GenAIUsage  = genAIUsage
)

// FactUsage is the usage that an execution_fact reports.
type FactUsage = factUsage
