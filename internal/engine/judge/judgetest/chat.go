package judgetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// chat is the format of chat completions.
type chat struct{}

func (chat) api() string { return OpenAI }

func (chat) requestIDHeader() string { return "X-Request-Id" }

func (chat) key(h http.Header) string {
	key, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return key
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	} `json:"json_schema"`
}

var chatFields = []string{"model", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed", "response_format"}

var schemaName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c chat) check(_ http.Header, fields map[string]json.RawMessage) *Reply {
	bad := func(format string, args ...any) *Reply {
		return &Reply{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(chatFields, name) {
			return bad("Unrecognized request argument supplied: %s", name)
		}
	}
	r := c.read(fields)
	if r.Model == "" {
		return bad("you must provide a model parameter")
	}
	var all []message
	if json.Unmarshal(fields["messages"], &all) != nil || len(all) == 0 {
		return bad("Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	for i, m := range all {
		if !slices.Contains([]string{"system", "user", "assistant"}, m.Role) {
			return bad("Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user' (messages[%d].role).", m.Role, i)
		}
	}
	if fields["max_tokens"] != nil && fields["max_completion_tokens"] != nil {
		return bad("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	if fields["response_format"] == nil {
		return nil
	}
	var f responseFormat
	if json.Unmarshal(fields["response_format"], &f) != nil {
		return bad("Invalid type for 'response_format'.")
	}
	return checkFormat(f, r, bad)
}

func checkFormat(f responseFormat, r Request, bad func(string, ...any) *Reply) *Reply {
	switch f.Type {
	case "json_object":
		if !strings.Contains(strings.ToLower(r.System+r.User), "json") {
			return bad("'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.")
		}
	case "json_schema":
		if !schemaName.MatchString(f.JSONSchema.Name) {
			return bad("Invalid 'response_format.json_schema.name': string does not match pattern.")
		}
		if problem := strictProblem(f.JSONSchema.Schema); f.JSONSchema.Strict && problem != "" {
			return bad("Invalid schema for response_format '%s': %s", f.JSONSchema.Name, problem)
		}
	default:
		return bad("Invalid value: '%s'. Supported values are: 'json_object', 'json_schema' and 'text'.", f.Type)
	}
	return nil
}

// strictProblem says what a strict server does not take of a schema, or "".
func strictProblem(raw json.RawMessage) string {
	var s struct {
		Type                 any                        `json:"type"`
		Properties           map[string]json.RawMessage `json:"properties"`
		Required             []string                   `json:"required"`
		AdditionalProperties *bool                      `json:"additionalProperties"`
		Items                json.RawMessage            `json:"items"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return "schema must be a JSON Schema object."
	}
	if s.Type == nil {
		return "schema must have a 'type' key."
	}
	if s.Type == "object" && (s.AdditionalProperties == nil || *s.AdditionalProperties) {
		return "'additionalProperties' is required to be supplied and to be false."
	}
	for name, property := range s.Properties {
		if !slices.Contains(s.Required, name) {
			return "'required' is required to be supplied and to be an array including every key in properties. Missing '" + name + "'."
		}
		if problem := strictProblem(property); problem != "" {
			return problem
		}
	}
	if s.Items != nil {
		return strictProblem(s.Items)
	}
	return ""
}

func (chat) uses(fields map[string]json.RawMessage, param string) bool {
	if param == "json_schema" || param == "json_object" {
		var f responseFormat
		_ = json.Unmarshal(fields["response_format"], &f) // checked before
		return f.Type == param
	}
	return fields[param] != nil
}

func (chat) read(fields map[string]json.RawMessage) (r Request) {
	// What cannot be read is refused by check.
	_ = json.Unmarshal(fields["model"], &r.Model)
	var all []message
	_ = json.Unmarshal(fields["messages"], &all)
	for _, m := range all {
		switch m.Role {
		case "system":
			r.System += m.Content
		case "user":
			r.User += m.Content
		}
	}
	var f responseFormat
	_ = json.Unmarshal(fields["response_format"], &f)
	r.Schema = f.JSONSchema.Schema
	return r
}

func (chat) unsupported(param string) Reply {
	text, code := fmt.Sprintf("Unsupported parameter: '%s' is not supported with this model.", param), "unsupported_parameter"
	switch param {
	case "max_tokens":
		text += " Use 'max_completion_tokens' instead."
	case "temperature":
		text = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
		code = "unsupported_value"
	case "json_schema":
		text = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
		param, code = "response_format", ""
	case "json_object":
		text = "Invalid parameter: 'response_format' of type 'json_object' is not supported with this model."
		param, code = "response_format", ""
	}
	return Reply{Status: http.StatusBadRequest, Body: encoded(map[string]any{"error": map[string]any{
		"message": text, "type": "invalid_request_error", "param": param, "code": code,
	}})}
}

func (chat) failure(status int, text string) []byte {
	kind, code := "invalid_request_error", any(nil)
	switch {
	case status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case status == http.StatusTooManyRequests:
		kind, code = "requests", "rate_limit_exceeded"
	case status >= 500:
		kind = "server_error"
	}
	return encoded(map[string]any{"error": map[string]any{"message": text, "type": kind, "param": nil, "code": code}})
}

func (chat) success(r Request, a Reply) []byte {
	answer := map[string]any{"role": "assistant", "content": a.Text, "refusal": nil}
	finish := "stop"
	switch a.Finish {
	case "refusal":
		answer["content"], answer["refusal"] = nil, "I'm sorry, I can't help with that."
	case "length", "content_filter":
		finish = a.Finish
	}
	body := map[string]any{
		"id": "chatcmpl-test", "object": "chat.completion", "created": 1_700_000_000, "model": orElse(a.Model, r.Model),
		"choices": []any{map[string]any{"index": 0, "message": answer, "logprobs": nil, "finish_reason": finish}},
	}
	if a.Input+a.Output > 0 {
		body["usage"] = map[string]any{"prompt_tokens": a.Input, "completion_tokens": a.Output, "total_tokens": a.Input + a.Output}
	}
	return encoded(body)
}

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings and numbers, and JSON that was checked
	}
	return text
}

func orElse(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
