package judge

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// messages is the wire format of Anthropic's Messages API.
type messages struct{}

func (messages) endpoint(base *url.URL) *url.URL {
	path := strings.TrimRight(base.Path, "/")
	switch {
	case strings.HasSuffix(path, "/v1/messages"):
		return base
	case strings.HasSuffix(path, "/v1"):
		return base.JoinPath("messages")
	default:
		return base.JoinPath("v1/messages")
	}
}

// header sets the API version that this format is written for. Compatible servers ignore it.
func (messages) header(h http.Header, key string) {
	h.Set("anthropic-version", "2023-06-01")
	if key != "" {
		h.Set("x-api-key", key)
	}
}

func (messages) outputModes() []string { return []string{jsonSchema, tool, none} }

func (messages) tokenLimitNames() []string { return []string{"max_tokens"} }

// body asks for the schema by output_config, or by a forced call of a tool on servers from before
// it.
func (m messages) body(q call) any {
	body := map[string]any{
		"model":      q.model,
		"max_tokens": q.maxTokens,
		"messages":   []map[string]string{{"role": "user", "content": q.user}},
	}
	if q.system != "" {
		body["system"] = q.system
	}
	if q.features.temperature {
		body["temperature"] = temperature
	}
	if q.schema == nil {
		return body
	}
	switch q.features.structured(m) {
	case jsonSchema:
		body["output_config"] = map[string]any{"format": map[string]any{"type": jsonSchema, "schema": q.schema.JSON}}
	case tool:
		body["tools"] = []map[string]any{{
			"name": q.schema.Name, "description": "Gives the answer.", "input_schema": q.schema.JSON,
		}}
		body["tool_choice"] = map[string]any{"type": tool, "name": q.schema.Name}
	}
	return body
}

func (messages) read(body []byte) reply {
	var answer struct {
		Type    string `json:"type"`
		Model   string `json:"model"`
		Content []struct {
			Type  string          `json:"type"`
			Text  string          `json:"text"`
			Input json.RawMessage `json:"input"`
		} `json:"content"`
		StopReason string `json:"stop_reason"`
		Usage      struct {
			Input        int64 `json:"input_tokens"`
			CacheWritten int64 `json:"cache_creation_input_tokens"`
			CacheRead    int64 `json:"cache_read_input_tokens"`
			Output       int64 `json:"output_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Type != "message" {
		return reply{problem: "the server's answer is not a message"}
	}
	used := answer.Usage
	r := reply{model: answer.Model, usage: Usage{
		// input_tokens has no cached tokens here, unlike with OpenAI: a Record counts all of them.
		InputTokens: used.Input + used.CacheWritten + used.CacheRead, OutputTokens: used.Output,
		CacheReadTokens: used.CacheRead, CacheWriteTokens: used.CacheWritten,
	}.valid()}
	for _, block := range answer.Content {
		// Text beside a tool's input is not part of the answer.
		if block.Type == "tool_use" && len(block.Input) > 0 {
			r.text = string(block.Input)
			break
		}
		if block.Type == "text" {
			r.text += block.Text
		}
	}
	switch {
	case answer.StopReason == "refusal":
		r.problem = refusedToAnswer
	case answer.StopReason == "max_tokens", answer.StopReason == "model_context_window_exceeded":
		r.problem, r.truncated = truncatedAnswer, true
	case r.text == "":
		r.problem = emptyAnswer
	}
	return r
}
