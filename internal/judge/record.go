package judge

import "strings"

// maxRaw bounds the answer in a record, in bytes.
const maxRaw = 4096

// A Record says how a verdict came about, so that it can be defended and
// compared: two series with different models or versions are two series.
type Record struct {
	API           string `json:"api"`
	Model         string `json:"model"` // as the server returned it
	PromptVersion string `json:"prompt_version"`
	SchemaVersion string `json:"schema_version,omitempty"`
	// Structured is how the form of the answer was asked for: json_schema,
	// json_object, tool, none, or "" when text was asked for.
	Structured string `json:"structured,omitempty"`
	// Temperature is nil when the model refuses to be given one.
	Temperature *float64 `json:"temperature"`
	Seed        int64    `json:"seed,omitempty"`
	Trial       int      `json:"trial,omitempty"`
	Usage
	// Repaired says that the first answer was not usable.
	Repaired bool `json:"repaired,omitempty"`
	// OmittedBytes is how much of the material the model has not seen.
	OmittedBytes int    `json:"omitted_bytes,omitempty"`
	RequestID    string `json:"request_id,omitempty"`
	Raw          string `json:"raw,omitempty"` // the last answer, bounded
}

// Usage is what calls have used. Tokens are 0 where the server does not say,
// and Cost is 0 where no prices are set.
type Usage struct {
	Attempts     int     `json:"attempts"` // requests, whatever came of them
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Cost         float64 `json:"cost,omitempty"`
	LatencyMS    int64   `json:"latency_ms"` // time in requests, without waits
}

func (u *Usage) add(more Usage) {
	u.Attempts += more.Attempts
	u.InputTokens += more.InputTokens
	u.OutputTokens += more.OutputTokens
	u.Cost += more.Cost
	u.LatencyMS += more.LatencyMS
}

// Totals is the usage of many calls.
type Totals struct {
	Calls  int
	Errors int // calls without a usable answer
	Usage
}

// bounded returns the beginning of a text without a broken last character,
// and without the character that PostgreSQL does not keep.
func bounded(text string, limit int) string {
	text = strings.ReplaceAll(text, "\x00", "")
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}
