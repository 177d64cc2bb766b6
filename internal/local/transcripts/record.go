package transcripts

import "time"

// The versions in records. A new normalizerVersion invalidates every State: the
// next import sends everything again, by the new rules.
const (
	schemaVersion     = "2.0"
	normalizerVersion = "4"
)

// The kinds of records.
const (
	sessionKind    = "session"
	promptKind     = "prompt"
	invocationKind = "skill_invocation"
	factKind       = "execution_fact"
	requestKind    = "model_request"
	offerKind      = "skill_offer"
	toolCallKind   = "tool_call"
	outcomeKind    = "outcome"
	transcriptKind = "transcript"
)

// base has the fields of all records. Ids and times are all from the transcript, never from
// this machine's clock. CaptureMode tells imports apart from sessions that are reported live,
// by OTLP.
type base struct {
	RecordKind        string `json:"record_kind"`
	SchemaVersion     string `json:"schema_version"`
	NormalizerVersion string `json:"normalizer_version"`
	// NormalizedAt is the version of a record: the server keeps the newest. It
	// is derived from the transcript, not from the clock, so that the same lines
	// always give the same record, and a retry the same push_id.
	NormalizedAt      time.Time `json:"normalized_at"`
	Platform          string    `json:"platform"`
	CaptureMode       string    `json:"capture_mode"`
	SourceSessionKind string    `json:"source_session_kind"`
	SessionID         string    `json:"session_id"`
	RawSourceRef      source    `json:"raw_source_ref"`
}

// source is the origin of a record.
type source struct {
	Path      string `json:"path"` // without folders, which would disclose names
	Line      int    `json:"line,omitempty"`
	EventType string `json:"event_type,omitempty"`
	RawID     string `json:"raw_id,omitempty"`
}

func newBase(kind, session string, at time.Time, from source) base {
	return base{
		RecordKind: kind, SchemaVersion: schemaVersion, NormalizerVersion: normalizerVersion, NormalizedAt: at,
		Platform: string(newFile(from.Path).program()), CaptureMode: "replay", SourceSessionKind: "replayed",
		SessionID: session, RawSourceRef: from,
	}
}

// kind selects the array of a push.
func (b base) kind() string { return b.RecordKind }

// A record is one of the types below.
type record interface{ kind() string }

// sessionRecord leaves out what its part of the transcript does not say; the
// server merges it with earlier reports.
type sessionRecord struct {
	base
	AgentCLI      string    `json:"agent_cli,omitempty"`
	WorkspacePath string    `json:"workspace_path,omitempty"`
	Branch        string    `json:"branch,omitempty"`
	Model         string    `json:"model,omitempty"`
	StartedAt     time.Time `json:"started_at,omitzero"`
	EndedAt       time.Time `json:"ended_at"`
}

// PromptText is empty unless the user has allowed to send it.
type promptRecord struct {
	base
	PromptID        string    `json:"prompt_id"`
	OccurredAt      time.Time `json:"occurred_at"`
	PromptText      string    `json:"prompt_text,omitempty"`
	PromptKind      string    `json:"prompt_kind"`
	IsActionable    bool      `json:"is_actionable"`
	PromptIndex     int       `json:"prompt_index"`
	SourceMessageID string    `json:"source_message_id,omitempty"`
	SourcePromptID  string    `json:"source_prompt_id,omitempty"` // the agent's own id of the prompt
}

// Confidence is 1 where the transcript names the skill, and lower where it is inferred.
type invocationRecord struct {
	base
	SkillInvocationID string    `json:"skill_invocation_id"`
	OccurredAt        time.Time `json:"occurred_at"`
	MatchedPromptID   string    `json:"matched_prompt_id,omitempty"`
	SourcePromptID    string    `json:"source_prompt_id,omitempty"` // the agent's own id of the prompt
	SkillName         string    `json:"skill_name"`
	SkillPath         string    `json:"skill_path,omitempty"`
	InvocationMode    string    `json:"invocation_mode"`
	Triggered         bool      `json:"triggered"`
	Confidence        float64   `json:"confidence"`
	ToolName          string    `json:"tool_name,omitempty"`
	ToolCallID        string    `json:"tool_call_id,omitempty"`
	AgentType         string    `json:"agent_type,omitempty"`
	// Unconfirmed means that the record alone does not make the name a skill: the
	// agent has no such skill, or brings it along.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

// requestRecord is one message of the model. Its tokens are disjoint.
type requestRecord struct {
	base
	RequestID           string    `json:"request_id,omitempty"` // of the API; equals request_id of the agent's OTLP events
	MessageID           string    `json:"message_id,omitempty"`
	OccurredAt          time.Time `json:"occurred_at"`
	SourcePromptID      string    `json:"source_prompt_id,omitempty"` // the agent's own id of the prompt
	SkillName           string    `json:"skill_name,omitempty"`
	Model               string    `json:"model,omitempty"`
	InputTokens         int64     `json:"input_tokens"`
	OutputTokens        int64     `json:"output_tokens"`
	CacheReadTokens     int64     `json:"cache_read_tokens"`
	CacheCreationTokens int64     `json:"cache_creation_tokens"`
	CacheCreationHour   int64     `json:"cache_creation_1h_tokens"`
}

// offerRecord has the skills that were shown to the model at one time.
type offerRecord struct {
	base
	OccurredAt time.Time `json:"occurred_at"`
	SkillNames []string  `json:"skill_names"`
}

// factRecord has the cost of one turn: tool calls, tokens and time.
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
