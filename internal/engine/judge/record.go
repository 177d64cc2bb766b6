package judge

// maxRaw is how many bytes of an answer, a reason or a quotation are kept.
const maxRaw = 4096

// A Record says how a verdict was made. Only verdicts of the same model and
// versions can be compared.
type Record struct {
	API           string `json:"api"`
	Model         string `json:"model"` // as the server returned it
	PromptVersion string `json:"prompt_version"`
	SchemaVersion string `json:"schema_version,omitempty"`
	// Structured is the mode of structured output: json_schema, json_object,
	// tool, none, or "" when text was asked for.
	Structured string `json:"structured,omitempty"`
	// Temperature is nil for a model that refuses the parameter.
	Temperature *float64 `json:"temperature"`
	Seed        int64    `json:"seed,omitempty"`
	Trial       int      `json:"trial,omitempty"`
	Usage
	// Repaired reports that the first answer was not usable.
	Repaired bool `json:"repaired,omitempty"`
	// OmittedBytes is how much of the material was truncated.
	OmittedBytes int `json:"omitted_bytes,omitempty"`
	// MissingControls is how many controls the model did not answer.
	MissingControls int `json:"missing_controls,omitempty"`

	RequestID string `json:"request_id,omitempty"`
	Raw       string `json:"raw,omitempty"` // the last answer, truncated
}

// Usage is the usage of a call. Tokens are 0 where the server does not report
// them.
type Usage struct {
	Attempts     int   `json:"attempts"` // requests, failed ones included
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// CacheReadTokens and CacheWriteTokens are parts of InputTokens.
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`

	LatencyMS int64 `json:"latency_ms"` // time in requests, without waits
}

// valid returns the usage without counts that cannot be right: they come from the server, and go
// into budgets and sums.
func (u Usage) valid() Usage {
	const most = 1 << 40 // tokens; sums of it do not overflow
	for _, n := range []int64{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens} {
		if n < 0 || n > most {
			return Usage{}
		}
	}
	if u.CacheReadTokens+u.CacheWriteTokens > u.InputTokens {
		u.CacheReadTokens, u.CacheWriteTokens = 0, 0
	}
	return u
}

func (u *Usage) add(more Usage) {
	u.Attempts += more.Attempts
	u.InputTokens += more.InputTokens
	u.OutputTokens += more.OutputTokens
	u.CacheReadTokens += more.CacheReadTokens
	u.CacheWriteTokens += more.CacheWriteTokens
	u.LatencyMS += more.LatencyMS
}
