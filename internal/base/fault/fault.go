// Package fault has errors with a kind that a caller can act on. An error without a
// kind is internal: it is logged and never shown to clients.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// A Kind is what a caller can do about an error.
type Kind int

// The kinds. Package httpapi maps each to an HTTP status.
const (
	Internal     Kind = iota // a bug or an outage of ours; the message stays in the log
	Malformed                // the request is not well-formed or not valid
	Unauthorized             // no key, or an unusable one
	Denied                   // the plan, a permission or the organisation forbids it
	NotFound
	Conflict    // the state does not allow it
	TooLarge    // over a size limit
	Unsupported // a media type that is not read
	Limited     // over a rate limit
	Unavailable // not ready or too busy
	BadGateway  // another server failed
	Gone        // it was here, and was taken back
)

// An Issue is one problem of a request: the field, and what to do about it.
type Issue struct {
	Path    []string
	Message string
}

// Error is an error that a caller can act on.
type Error struct {
	Kind    Kind
	Message string
	// Issues are the problems of a Malformed request, the first one first.
	Issues []Issue
	// RetryAfter is how long to wait before a retry; 0 if a retry makes no sense.
	RetryAfter time.Duration
	// Code tells a program what the message tells people, e.g. "protected_suite"; ""
	// where the status says enough.
	Code  string
	cause error
}

// New returns an error of a kind with a message for the caller.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns a Malformed error about one field. A dot in path separates
// levels: "cases_json.3.query".
func Invalid(path, format string, args ...any) *Error {
	return Issues(At(path, format, args...))
}

// At describes one problem with one field, for Issues.
func At(path, format string, args ...any) Issue {
	var elements []string
	if path != "" {
		elements = strings.Split(path, ".")
	}
	return Issue{Path: elements, Message: fmt.Sprintf(format, args...)}
}

// Issues returns a Malformed error about all the problems given, which must
// be at least one.
func Issues(issues ...Issue) *Error {
	return &Error{Kind: Malformed, Message: issues[0].Message, Issues: issues}
}

// Because attaches the cause, which is logged and never shown to clients.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

// After sets how long to wait before a retry.
func (e *Error) After(wait time.Duration) *Error {
	e.RetryAfter = wait
	return e
}

// WithCode sets the code by which programs know the error.
func (e *Error) WithCode(code string) *Error {
	e.Code = code
	return e
}

// Disk turns the error of a full disk or quota into Unavailable: a retry makes sense
// after room was made. Other errors stay as they are.
func Disk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return New(Unavailable, "There is no room on the disk").After(10 * time.Second).Because(err)
	}
	return err
}

func (e *Error) Error() string {
	if e.cause != nil {
		return e.Message + ": " + e.cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.cause }

// Of returns the kind of err: the outermost one in its chain, or Internal.
func Of(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether err has the kind.
func Is(err error, kind Kind) bool {
	return err != nil && Of(err) == kind
}

// Wrap adds the operation to *err, if there is an error. It is deferred at the top
// of functions that do I/O:
//
//	defer fault.Wrap(&err, "entry %s", id)
func Wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}
