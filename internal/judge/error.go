package judge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Code says why there is no verdict. A judge's failure is never a verdict:
// neither "fail" nor "did not trigger".
type Code string

// The codes.
const (
	Rejected    Code = "judge_rejected"    // the server does not take the request; asking again does not help
	Unusable    Code = "judge_unusable"    // the model answers, but not with a verdict
	Unavailable Code = "judge_unavailable" // the server cannot answer now, or no model is configured
	Timeout     Code = "judge_timeout"     // the server did not answer in time
)

// An Error is a verdict that could not be had. Its message may be shown: it
// holds neither the key nor more of the URL than its host.
type Error struct {
	Code    Code
	Message string
	// Stop says that every other call would fail in the same way, so that a
	// whole run should end: the key is not accepted.
	Stop bool
	// Status is the last HTTP status, or 0.
	Status int
	// RetryAfter is how long the server wants to be left alone, if it said so.
	RetryAfter time.Duration
	// Record tells what the failed call has used and what came back.
	Record Record

	cause error
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

func (e *Error) Unwrap() error { return e.cause }

// CodeOf returns the code of an error of this package, or "" if it has none,
// as the caller's own cancellation has none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// MustStop reports whether err says that every other call would fail, too.
func MustStop(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Stop
}

// rejected is about a request that is not worth sending.
func rejected(format string, args ...any) *Error {
	return &Error{Code: Rejected, Message: fmt.Sprintf(format, args...)}
}

// ended returns what a context's end means: the caller's cancellation stays
// what it is, the caller's deadline is a timeout.
func ended(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Code: Timeout, Message: "there was no answer before the deadline of the call", cause: err}
	}
	return err
}

// A problem is why an answer is not a verdict. It is repeated to the model,
// so it never holds text of the answer.
type problem string

func (p problem) Error() string { return string(p) }

// oneLine returns the beginning of a stranger's text in one line.
func oneLine(text string, runes int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	text = strings.ToValidUTF8(text, "\uFFFD")
	for i := range text {
		if runes--; runes < 0 {
			return text[:i] + "…"
		}
	}
	return text
}
