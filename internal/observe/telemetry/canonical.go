package telemetry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// envelope is the body of a push, canonical schema 2.0.
type envelope struct {
	PushID    string                     `json:"push_id,omitempty" format:"uuid" doc:"The idempotency key; derived from the body when omitted"`
	Canonical map[string]json.RawMessage `json:"canonical" nullable:"false" doc:"Arrays of records by kind, e.g. skill_invocations"`
}

// decodeEnvelope decodes the body of a push. Its error is a fault.Invalid.
func decodeEnvelope(raw []byte, e *envelope) error {
	err := httpapi.DecodeJSON(raw, e)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fault.Invalid(wrong.Field, "%s: unexpected %s", wrong.Field, wrong.Value)
	}
	if err != nil {
		return fault.Invalid("", "the body is not a JSON object: %s", err)
	}
	return nil
}

// The records of a push, each with the fields that the service reads. Unknown
// fields are stored with the record.

// base has the fields of all records.
type base struct {
	SessionID    *string         `json:"session_id"`
	NormalizedAt *string         `json:"normalized_at"`
	Platform     json.RawMessage `json:"platform"` // the agent, e.g. claude_code
}

type promptRecord struct {
	base
	ID             *string `json:"prompt_id"`
	OccurredAt     *string `json:"occurred_at"`
	Text           *string `json:"prompt_text"`
	Kind           *string `json:"prompt_kind"`
	SourcePromptID *string `json:"source_prompt_id"` // prompt.id of the agent's OTLP events
}

type invocationRecord struct {
	base
	ID              *string  `json:"skill_invocation_id"`
	OccurredAt      *string  `json:"occurred_at"`
	MatchedPromptID *string  `json:"matched_prompt_id"`
	SourcePromptID  *string  `json:"source_prompt_id"` // prompt.id of the agent's OTLP events
	SkillName       *string  `json:"skill_name"`
	VersionHash     *string  `json:"skill_version_hash"`
	Mode            *string  `json:"invocation_mode"`
	Triggered       *bool    `json:"triggered"`
	Confidence      *float64 `json:"confidence"`
	ToolCallID      *string  `json:"tool_call_id"`
	Unconfirmed     bool     `json:"unconfirmed"` // the record alone does not make the name a skill
}

type sessionRecord struct {
	base
	Model     json.RawMessage `json:"model"`
	StartedAt json.RawMessage `json:"started_at"`
	EndedAt   json.RawMessage `json:"ended_at"`
	Status    json.RawMessage `json:"completion_status"`
}

type offerRecord struct {
	base
	OccurredAt *string  `json:"occurred_at"`
	SkillNames []string `json:"skill_names"`
}

type factRecord struct {
	base
	factUsage
	ID           json.RawMessage `json:"execution_fact_id"` // some clients send a number
	OccurredAt   *string         `json:"occurred_at"`
	PromptID     json.RawMessage `json:"prompt_id"`
	Model        json.RawMessage `json:"model"`
	ActiveSkills json.RawMessage `json:"active_skills"`
	DurationMS   number          `json:"duration_ms"`
	ToolCalls    number          `json:"total_tool_calls"`
	Errors       number          `json:"errors_encountered"`
	Source       json.RawMessage `json:"raw_source_ref"`
}

// requestRecord is one message of a model in a transcript.
type requestRecord struct {
	base
	messageUsage
	RequestID      *string `json:"request_id"` // that of the API, as in the agent's OTLP events
	MessageID      *string `json:"message_id"`
	OccurredAt     *string `json:"occurred_at"`
	SourcePromptID *string `json:"source_prompt_id"`
	SkillName      *string `json:"skill_name"`
	Model          *string `json:"model"`
}

type gradingRecord struct {
	base
	ID          *string  `json:"grading_id"`
	SkillName   *string  `json:"skill_name"`
	GradedAt    *string  `json:"graded_at"`
	PassRate    *float64 `json:"pass_rate"`
	PassedCount *float64 `json:"passed_count"`
	FailedCount *float64 `json:"failed_count"`
	TotalCount  *float64 `json:"total_count"`
}

// decode decodes a record. Its error is the message of a rejection.
func decode(item json.RawMessage, record any) error {
	err := httpapi.DecodeJSON(item, record)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		// A field of an embedded struct comes with the name of that struct.
		return fmt.Errorf("%s: unexpected %s", wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:], wrong.Value)
	}
	if err != nil || string(item) == "null" {
		return errors.New("the record must be an object")
	}
	return nil
}

// maxText bounds names and ids, in bytes.
const maxText = 1024

// required returns the value of a required field.
func required(field string, value *string) (string, error) {
	if value == nil || strings.TrimSpace(*value) == "" {
		return "", fmt.Errorf("%s is required", field)
	}
	if len(*value) > maxText || strings.ContainsRune(*value, 0) {
		return "", fmt.Errorf("%s is too long or holds a NUL character", field)
	}
	return *value, nil
}

// optional returns the value of an optional field, without NUL, which PostgreSQL
// does not store.
func optional(value *string) string {
	if value == nil {
		return ""
	}
	return strings.ReplaceAll(*value, "\x00", "\ufffd")
}

// textIn returns a string in JSON; "" if it is anything else.
func textIn(raw json.RawMessage) string {
	var text string
	_ = json.Unmarshal(raw, &text) // on an error there is none
	return optional(&text)
}

// validateShare accepts no NaN.
func validateShare(field string, share *float64) error {
	if share != nil && !(*share >= 0 && *share <= 1) {
		return fmt.Errorf("%s must be between 0 and 1", field)
	}
	return nil
}

// passRate returns the rate, else the ratio of the counts, of which the total may
// be left out; nil if there is neither.
func (g gradingRecord) passRate() (*float64, error) {
	if err := validateShare("pass_rate", g.PassRate); err != nil || g.PassRate != nil || g.PassedCount == nil {
		return g.PassRate, err
	}
	total := g.TotalCount
	if total == nil && g.FailedCount != nil {
		sum := *g.PassedCount + *g.FailedCount
		total = &sum
	}
	var rate *float64
	if total != nil && *total > 0 {
		quotient := *g.PassedCount / *total
		rate = &quotient
	}
	return rate, validateShare("passed_count / total_count", rate)
}

// id returns the id as text: 1 and "1" are the same.
func (f factRecord) id() (string, error) {
	var text string
	if json.Unmarshal(f.ID, &text) == nil {
		return required("execution_fact_id", &text)
	}
	var number json.Number
	if json.Unmarshal(f.ID, &number) == nil {
		return required("execution_fact_id", (*string)(&number))
	}
	return "", errors.New("execution_fact_id must be a string or a number")
}
