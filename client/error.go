package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
)

// An Error is an error response of the server.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Message is for people.
	Message string
	// Code is for programs, e.g. "protected_suite"; "" where the status says enough.
	Code string
	// Issues are all problems of an invalid request.
	Issues []api.Issue
	// RequestID identifies the request in the server's log.
	RequestID string
	// RetryAfter is the server's Retry-After header, or 0.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if len(e.Issues) == 0 {
		return e.Message
	}
	messages := make([]string, len(e.Issues))
	for i, issue := range e.Issues {
		messages[i] = issue.Message
	}
	return strings.Join(messages, "; ")
}

// Status returns the status of an *Error in err's chain, or 0.
func Status(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// ErrHash means that a download is not the content of the version: it was changed
// or truncated on the way, and must not be used.
var ErrHash = errors.New("the SHA-256 of the download is not that of the version")

// maxErrorBody is larger than any error of the API.
const maxErrorBody = 1 << 20

// newError decodes an error response. The API has two shapes of error bodies; a
// response of a proxy on the way has neither.
func newError(resp *http.Response) *Error {
	e := &Error{
		Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-Id"),
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now()),
	}
	if resp.StatusCode < http.StatusBadRequest {
		e.Message = fmt.Sprintf("the server redirects (%d) to %s; is its address correct?",
			resp.StatusCode, resp.Header.Get("Location"))
		return e
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // without a body the status remains
	e.decode(raw)
	if e.Message == "" {
		e.Message = fmt.Sprintf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return e
}

func (e *Error) decode(raw []byte) {
	var structured struct {
		Error struct {
			Message string `json:"message"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(raw, &structured) == nil {
		e.Message, e.Code = structured.Error.Message, structured.Error.Code
		return
	}
	var validation struct {
		Error   string      `json:"error"`
		Details api.Issue   `json:"details"`
		Issues  []api.Issue `json:"issues"`
	}
	if json.Unmarshal(raw, &validation) != nil {
		return
	}
	e.Message, e.Issues = validation.Error, validation.Issues
	if len(e.Issues) == 0 && validation.Details.Message != "" {
		e.Issues = []api.Issue{validation.Details}
	}
}

// retryAfter parses the header Retry-After: a number of seconds, or a time.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second // 31 bits of seconds fit
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
