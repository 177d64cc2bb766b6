package judgetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// messages is the format of Anthropic's messages.
type messages struct{}

func (messages) api() string { return Anthropic }

func (messages) requestIDHeader() string { return "Request-Id" }

func (messages) key(h http.Header) string { return h.Get("X-Api-Key") }

var messageFields = []string{"model", "messages", "max_tokens", "system", "temperature", "output_config", "tools", "tool_choice"}

func (m messages) check(h http.Header, fields map[string]json.RawMessage) *Reply {
	bad := func(format string, args ...any) *Reply {
		return &Reply{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
	}
	if h.Get("Anthropic-Version") == "" {
		return bad("anthropic-version: header is required")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(messageFields, name) {
			return bad("%s: Extra inputs are not permitted", name)
		}
	}
	for _, name := range []string{"model", "max_tokens", "messages"} {
		if fields[name] == nil {
			return bad("%s: Field required", name)
		}
	}
	var all []message
	if json.Unmarshal(fields["messages"], &all) != nil || len(all) == 0 {
		return bad("messages: at least one message is required")
	}
	for i, one := range all {
		switch {
		case one.Role == "system":
			return bad("messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \"system\" as an input message role.")
		case i == 0 && one.Role != "user":
			return bad("messages: first message must use the \"user\" role")
		case one.Content == "":
			return bad("messages.%d: user messages must have non-empty content", i)
		}
	}
	if schema := m.read(fields).Schema; schema != nil {
		if problem := strictProblem(schema); problem != "" {
			return bad("output_config.format.schema: %s", problem)
		}
	}
	return nil
}

func (messages) uses(fields map[string]json.RawMessage, param string) bool {
	return fields[param] != nil
}

func (messages) read(fields map[string]json.RawMessage) (r Request) {
	// What cannot be read is refused by check.
	_ = json.Unmarshal(fields["model"], &r.Model)
	_ = json.Unmarshal(fields["system"], &r.System)
	var all []message
	_ = json.Unmarshal(fields["messages"], &all)
	for _, m := range all {
		if m.Role == "user" {
			r.User += m.Content
		}
	}
	var config struct {
		Format struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	}
	var tools []struct {
		InputSchema json.RawMessage `json:"input_schema"`
	}
	_ = json.Unmarshal(fields["output_config"], &config)
	_ = json.Unmarshal(fields["tools"], &tools)
	r.Schema = config.Format.Schema
	if len(tools) > 0 {
		r.Schema = tools[0].InputSchema
	}
	return r
}

func (m messages) unsupported(param string) Reply {
	text := param + ": Extra inputs are not permitted"
	if param == "temperature" {
		text = "`temperature` is deprecated for this model."
	}
	return Reply{Status: http.StatusBadRequest, Body: m.failure(http.StatusBadRequest, text)}
}

func (messages) failure(status int, text string) []byte {
	kinds := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
	}
	return encoded(map[string]any{
		"type":       "error",
		"error":      map[string]any{"type": orElse(kinds[status], "api_error"), "message": text},
		"request_id": "req_test",
	})
}

func (messages) success(r Request, a Reply) []byte {
	content, stop := []any{map[string]any{"type": "text", "text": a.Text}}, "end_turn"
	switch {
	case a.Tool != nil:
		content = append(content, map[string]any{"type": "tool_use", "id": "toolu_test", "name": "answer", "input": a.Tool})
		stop = "tool_use"
	case a.Finish == "length":
		stop = "max_tokens"
	case a.Finish != "":
		content, stop = []any{}, "refusal"
	}
	body := map[string]any{
		"id": "msg_test", "type": "message", "role": "assistant", "model": orElse(a.Model, r.Model),
		"content": content, "stop_reason": stop, "stop_sequence": nil,
	}
	if a.Input+a.Output > 0 {
		body["usage"] = map[string]any{"input_tokens": a.Input, "output_tokens": a.Output}
	}
	return encoded(body)
}
