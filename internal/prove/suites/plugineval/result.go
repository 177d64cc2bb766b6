package plugineval

import "encoding/json"

// IsResult reports whether a JSON file is the aggregate-result.json of a run, which
// isn't a suite.
func IsResult(raw []byte) bool {
	var in struct {
		SchemaVersion json.RawMessage `json:"schemaVersion"`
		ClaudeVersion json.RawMessage `json:"claudeVersion"`
	}
	return json.Unmarshal(raw, &in) == nil && in.SchemaVersion != nil && in.ClaudeVersion != nil
}
