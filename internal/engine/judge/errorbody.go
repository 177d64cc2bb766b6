package judge

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// errorBody is the body of an error response.
type errorBody struct {
	text    string // the whole body, in lower case
	message string // for people
}

// parseErrorBody parses the error bodies of both wire formats, and those of
// servers that are only nearly compatible: {"detail": ...}, {"message": ...},
// {"error": "..."}, plain text.
func parseErrorBody(body []byte) errorBody {
	var answer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	all := strings.ToLower(string(body))
	if json.Unmarshal(body, &answer) != nil {
		return errorBody{text: all, message: string(body)}
	}
	r := errorBody{text: all, message: answer.Message}
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

// unquoted returns the value of a JSON string, and any other JSON unchanged.
func unquoted(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(bytes.TrimSpace(raw))
}

// structuredWords occur in errors about the parameters of structured output. All are lower case. It
// is read only.
var structuredWords = []string{
	"response_format", "response format", "json_schema", "json_object", "output_config", "output format",
	"structured output", "tool_choice", "tools", "grammar",
}

// unsupportedWords occur in errors about a parameter that the server does not
// know, as opposed to one with a bad value. It is read only.
var unsupportedWords = []string{
	"unsupported", "not supported", "not support", "not permitted", "not allowed", "unrecognized", "unknown",
	"unexpected", "extra_forbidden", "deprecated",
}

// mentions reports whether the body contains one of the words.
func (r errorBody) mentions(words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(r.text, word) })
}
