package judge

import (
	"bytes"
	"encoding/json"
	"strings"
)

// refusal is what a server says about a request that it does not take.
type refusal struct {
	text    string // all of it, in lower case
	message string // what a person should read
}

// readRefusal reads the error bodies of both formats, and those of servers
// that are only nearly compatible: {"detail": ...}, {"message": ...},
// {"error": "..."}, plain text.
func readRefusal(body []byte) refusal {
	var answer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	all := strings.ToLower(string(body))
	if json.Unmarshal(body, &answer) != nil {
		return refusal{text: all, message: string(body)}
	}
	r := refusal{text: all, message: answer.Message}
	var inner struct {
		Message string `json:"message"`
	}
	switch {
	case json.Unmarshal(answer.Error, &inner) == nil && inner.Message != "":
		r.message = inner.Message
	case len(answer.Error) > 0:
		r.message = unquoted(answer.Error)
	case r.message == "" && len(answer.Detail) > 0:
		r.message = unquoted(answer.Detail)
	}
	return r
}

// unquoted returns a JSON string's text, and anything else as it stands.
func unquoted(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(bytes.TrimSpace(raw))
}

// formWords are how servers name what asks for the form of an answer. All are
// lower case. It is read only.
var formWords = []string{
	"response_format", "response format", "json_schema", "json_object", "output_config", "output format", "structured output",
	"tool_choice", "tools", "grammar",
}

// unsupportedWords are how servers say that they do not know, rather than do
// not like. It is read only.
var unsupportedWords = []string{
	"unsupported", "not supported", "not support", "not permitted", "not allowed", "unrecognized", "unknown", "unexpected", "extra_forbidden",
	"deprecated",
}

func (r refusal) names(words ...string) bool { return containsAny(r.text, words) }

func (r refusal) isUnsupported() bool { return containsAny(r.text, unsupportedWords) }

func containsAny(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
