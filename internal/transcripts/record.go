package transcripts

import "time"

// The versions that records carry. A new normalizerVersion makes everybody's
// next import send everything again, under the new rules.
const (
	schemaVersion     = "2.0"
	normalizerVersion = "1"
)

// The record kinds of the push, and the arrays that they stand in.
const (
	sessionKind    = "session"
	promptKind     = "prompt"
	invocationKind = "skill_invocation"
	factKind       = "execution_fact"
)

// base is what all records say.
type base struct {
	RecordKind        string `json:"record_kind"`
	SchemaVersion     string `json:"schema_version"`
	NormalizerVersion string `json:"normalizer_version"`
	// NormalizedAt orders readings of one record: a later one knows more. It
	// comes from the transcript, not from the clock: the same lines must give
	// the same record whenever they are read.
	NormalizedAt      time.Time `json:"normalized_at"`
	Platform          string    `json:"platform"`
	CaptureMode       string    `json:"capture_mode"`
	SourceSessionKind string    `json:"source_session_kind"`
	SessionID         string    `json:"session_id"`
	RawSourceRef      source    `json:"raw_source_ref"`
}

// source says where a record comes from.
type source struct {
	Path      string `json:"path"` // without folders, which tell of the machine
	Line      int    `json:"line,omitempty"`
	EventType string `json:"event_type,omitempty"`
	RawID     string `json:"raw_id,omitempty"`
}

func newBase(kind, session string, at time.Time, from source) base {
	return base{
		RecordKind: kind, SchemaVersion: schemaVersion, NormalizerVersion: normalizerVersion, NormalizedAt: at,
		Platform: "claude_code", CaptureMode: "replay", SourceSessionKind: "replayed", SessionID: session, RawSourceRef: from,
	}
}

// kind is the record's place in a push.
func (b base) kind() string { return b.RecordKind }

// A record is one of the types below.
type record interface{ kind() string }

// sessionRecord leaves open what its part of the transcript does not tell.
type sessionRecord struct {
	base
	AgentCLI      string    `json:"agent_cli,omitempty"`
	WorkspacePath string    `json:"workspace_path,omitempty"`
	Branch        string    `json:"branch,omitempty"`
	Model         string    `json:"model,omitempty"`
	StartedAt     time.Time `json:"started_at,omitzero"`
	EndedAt       time.Time `json:"ended_at"`
}

type promptRecord struct {
	base
	PromptID        string    `json:"prompt_id"`
	OccurredAt      time.Time `json:"occurred_at"`
	PromptText      string    `json:"prompt_text,omitempty"`
	PromptKind      string    `json:"prompt_kind"`
	IsActionable    bool      `json:"is_actionable"`
	PromptIndex     int       `json:"prompt_index"`
	SourceMessageID string    `json:"source_message_id,omitempty"`
}

type invocationRecord struct {
	base
	SkillInvocationID string    `json:"skill_invocation_id"`
	OccurredAt        time.Time `json:"occurred_at"`
	MatchedPromptID   string    `json:"matched_prompt_id,omitempty"`
	SkillName         string    `json:"skill_name"`
	SkillPath         string    `json:"skill_path,omitempty"`
	InvocationMode    string    `json:"invocation_mode"`
	Triggered         bool      `json:"triggered"`
	Confidence        float64   `json:"confidence"`
	ToolName          string    `json:"tool_name,omitempty"`
	ToolCallID        string    `json:"tool_call_id,omitempty"`
	AgentType         string    `json:"agent_type,omitempty"`
}

// factRecord is what one turn took.
type factRecord struct {
	base
	ExecutionFactID   string         `json:"execution_fact_id"`
	OccurredAt        time.Time      `json:"occurred_at"`
	PromptID          string         `json:"prompt_id,omitempty"`
	ToolCallsJSON     map[string]int `json:"tool_calls_json"`
	TotalToolCalls    int            `json:"total_tool_calls"`
	AssistantTurns    int            `json:"assistant_turns"`
	ErrorsEncountered int            `json:"errors_encountered"`
	InputTokens       int64          `json:"input_tokens"`
	CachedInputTokens int64          `json:"cached_input_tokens"`
	OutputTokens      int64          `json:"output_tokens"`
	DurationMS        int64          `json:"duration_ms"`
	ActiveSkills      []string       `json:"active_skills,omitempty"`
}
