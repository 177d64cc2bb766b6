package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A Code is the reason why there is no verdict. A judge's failure is never a
// verdict: neither "fail" nor "did not trigger".
type Code string

// The codes.
const (
	Rejected    Code = "judge_rejected"    // the server refuses the request; a retry does not help
	Unusable    Code = "judge_unusable"    // the model's answer is not a verdict
	Unavailable Code = "judge_unavailable" // a temporary failure, or no model is configured
	Timeout     Code = "judge_timeout"     // the server did not answer in time
)

// An Error reports that there is no verdict. Its message may be shown: it
// contains neither the key nor more of the URL than its host.
type Error struct {
	Code    Code
	Message string
	// Stop reports that every other call would fail in the same way, so that a
	// whole run should end: the key is not accepted.
	Stop bool
	// Status is the last HTTP status, or 0.
	Status int
	// RetryAfter is the wait that the server asked for, or 0.
	RetryAfter time.Duration
	// Record has the usage of the failed call and its last answer.
	Record Record

	cause error
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

func (e *Error) Unwrap() error { return e.cause }

// CodeOf returns the code of an error of this package, or "" for other errors,
// such as the caller's own cancellation.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// MustStop reports whether every other call would fail like err, too.
func MustStop(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Stop
}

// rejected returns the error for a request that is invalid and was not sent.
func rejected(format string, args ...any) *Error {
	return &Error{Code: Rejected, Message: fmt.Sprintf(format, args...)}
}

// contextError turns the caller's deadline into a Timeout, which counts as a failed call. A
// cancellation is returned as it is, since it isn't the judge's failure.
func contextError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Code: Timeout, Message: "there was no answer before the deadline of the call", cause: err}
	}
	return err
}

// A problem is the reason why an answer is not usable. It is sent to the model
// in the repair note, so it never contains text of the answer.
type problem string

func (p problem) Error() string { return string(p) }

// excerpt returns at most limit characters of untrusted text in one line.
func excerpt(s string, limit int) string { return text.Ellipsis(text.PlainLine(s), limit) }

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
