package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// statuses maps the kind of an error to the status of its answer.
var statuses = map[fault.Kind]int{
	fault.Internal:     http.StatusInternalServerError,
	fault.Malformed:    http.StatusBadRequest,
	fault.Unauthorized: http.StatusUnauthorized,
	fault.Denied:       http.StatusForbidden,
	fault.NotFound:     http.StatusNotFound,
	fault.Conflict:     http.StatusConflict,
	fault.TooLarge:     http.StatusRequestEntityTooLarge,
	fault.Unsupported:  http.StatusUnsupportedMediaType,
	fault.Limited:      http.StatusTooManyRequests,
	fault.Unavailable:  http.StatusServiceUnavailable,
	fault.BadGateway:   http.StatusBadGateway,
	fault.Gone:         http.StatusGone,
}

// StructuredError is the body of every error except a failed validation.
type StructuredError struct {
	Error struct {
		Message string `json:"message" example:"Review not found"`
		Status  int    `json:"status" example:"404"`
		Code    string `json:"code,omitempty" example:"protected_suite" doc:"What happened, for programs; left out where the status says enough"`
	} `json:"error"`
}

// ValidationError is the body of the answer to an invalid request. Details is the
// first of the issues.
type ValidationError struct {
	Error   string  `json:"error" example:"Validation failed"`
	Details Issue   `json:"details"`
	Issues  []Issue `json:"issues" nullable:"false"`
}

// Issue is one problem of a request.
type Issue = api.Issue

// errorBody is one of the two error bodies with its status and headers.
type errorBody struct {
	status int
	header http.Header
	body   any
}

func structured(status int, message string) *errorBody { return coded(status, message, "") }

func coded(status int, message, code string) *errorBody {
	body := StructuredError{}
	body.Error.Message, body.Error.Status, body.Error.Code = message, status, code
	return &errorBody{status: status, header: http.Header{}, body: body}
}

func validation(issues []fault.Issue) *errorBody {
	body := ValidationError{Error: "Validation failed", Issues: make([]Issue, len(issues))}
	for i, issue := range issues {
		body.Issues[i] = Issue{Path: append([]string{}, issue.Path...), Message: issue.Message}
	}
	body.Details = body.Issues[0]
	return &errorBody{status: http.StatusBadRequest, header: http.Header{}, body: body}
}

// errorBody maps an error to its answer. Internal errors are logged here, once;
// the answer only has the request id, to find them by.
func (a *API) errorBody(ctx context.Context, err error) *errorBody {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind == fault.Internal {
		id := RequestID(ctx)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			a.log.DebugContext(ctx, "the client went away", "request_id", id)
			return structured(http.StatusServiceUnavailable, "The request was cancelled; request "+id)
		}
		a.log.ErrorContext(ctx, "request failed", "request_id", id, "error", err)
		if errors.Is(err, context.DeadlineExceeded) {
			return structured(http.StatusGatewayTimeout, "This took too long; request "+id)
		}
		return structured(http.StatusInternalServerError, "Internal error; request "+id)

	}
	if e.Kind == fault.Malformed {
		if len(e.Issues) == 0 {
			return validation([]fault.Issue{{Message: e.Message}})
		}
		return validation(e.Issues)
	}
	if statuses[e.Kind] >= http.StatusInternalServerError {
		a.log.WarnContext(ctx, "request failed", "request_id", RequestID(ctx), "error", err)
	}
	return faultBody(ctx, e)
}

// faultBody is the answer to a fault without issues.
func faultBody(ctx context.Context, e *fault.Error) *errorBody {
	status, message := statuses[e.Kind], e.Message
	if status >= http.StatusInternalServerError {
		message += "; request " + RequestID(ctx)
	}
	body := coded(status, message, e.Code)
	if e.RetryAfter > 0 {
		body.header.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if e.Kind == fault.Unauthorized {
		body.header.Set("WWW-Authenticate", "Bearer")
	}
	return body
}

// writeError answers with an error outside of a typed function.
func (a *API) writeError(w http.ResponseWriter, r *http.Request, err error) {
	a.errorBody(r.Context(), err).write(w)
}

func (e *errorBody) write(w http.ResponseWriter) {
	for name, values := range e.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_ = json.NewEncoder(w).Encode(e.body) // the client is gone if this fails
}

// problemBody is the answer to a request whose body could not be read.
func problemBody(ctx context.Context, problem *fault.Error) *errorBody {
	if problem.Kind == fault.Malformed {
		return validation(problem.Issues)
	}
	return faultBody(ctx, problem)
}

// maxIssues is how many problems an answer lists: a body may have one for every
// two bytes.
const maxIssues = 1000

func issues(errs []error) []fault.Issue {
	errs = errs[:min(len(errs), maxIssues)]
	all := make([]fault.Issue, 0, len(errs))
	for _, err := range errs {
		var detail *huma.ErrorDetail
		if !errors.As(err, &detail) {
			detail = &huma.ErrorDetail{Message: err.Error()}
		}
		all = append(all, issue(detail))
	}
	return all
}

var (
	missingProperty = regexp.MustCompile(`^expected required property (\S+) to be present$`)
	missingParam    = regexp.MustCompile(`^required (query|path|header) parameter is missing$`)
	wrongType       = regexp.MustCompile(`^json: cannot unmarshal (.+) into Go (?:value|struct field [^.]*\.(\S+)) of type .+$`)
)

// issue turns huma's finding into an issue: the location
// "body.cases_json[3].query" becomes the path ["cases_json", "3", "query"], and the
// message names the field. huma's messages are only known by their text, so tests
// pin each of the patterns above.
func issue(detail *huma.ErrorDetail) fault.Issue {
	path := strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(detail.Location), ".")
	switch path[0] {
	case "body", "query", "path", "header", "form", "cookie", "":
		path = path[1:]
	}
	if m := missingProperty.FindStringSubmatch(detail.Message); m != nil {
		return fault.Issue{Path: append(path, m[1]), Message: m[1] + " is required"}
	}
	if m := wrongType.FindStringSubmatch(detail.Message); m != nil {
		value, field := m[1], m[2]
		if field == "" {
			return fault.At("", "the body: unexpected %s", value)
		}
		return fault.At(field, "%s: unexpected %s", field, value)
	}
	name := strings.Join(path, ".")
	switch {
	case missingParam.MatchString(detail.Message):
		return fault.Issue{Path: path, Message: name + " is required"}
	case name == "" && strings.HasPrefix(detail.Message, "expected"):
		return fault.Issue{Path: path, Message: "the body: " + detail.Message}
	case name == "":
		return fault.Issue{Path: path, Message: "the body is not valid JSON: " + detail.Message}
	}
	return fault.Issue{Path: path, Message: fmt.Sprintf("%s: %s", name, detail.Message)}
}

// An ErrorFormat replaces the API's error bodies on the routes of a protocol that
// defines its own.
type ErrorFormat struct {
	// Encode returns the body of an error, in the encoding that the header of the
	// request asks for.
	Encode func(request http.Header, status int, message string) (mediaType string, body []byte)
	// Bodies lists what Encode returns, for the OpenAPI document.
	Bodies []Media
}

// middleware encodes what the middleware after it, huma and the operation answer.
func (f *ErrorFormat) middleware(ctx huma.Context, next func(huma.Context)) {
	req, w := humago.Unwrap(ctx)
	out := &errorRecorder{ResponseWriter: w}
	next(humago.NewContext(ctx.Operation(), req, out))
	if out.status == 0 {
		return
	}
	mediaType, body := f.Encode(req.Header, out.status, out.message())
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(out.status)
	_, _ = w.Write(body) // the client is gone if this fails
}

// An errorRecorder keeps an error's answer back, and passes all others on.
type errorRecorder struct {
	http.ResponseWriter
	status int // 0 if it is no error
	body   bytes.Buffer
}

// Unwrap lets http.ResponseController reach the connection.
func (e *errorRecorder) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *errorRecorder) WriteHeader(status int) {
	if status < http.StatusBadRequest {
		e.ResponseWriter.WriteHeader(status)
		return
	}
	e.status = status
}

func (e *errorRecorder) Write(p []byte) (int, error) {
	if e.status == 0 {
		return e.ResponseWriter.Write(p)
	}
	return e.body.Write(p)
}

// message is that of either of the API's error bodies.
func (e *errorRecorder) message() string {
	var invalid ValidationError
	if json.Unmarshal(e.body.Bytes(), &invalid) == nil {
		return invalid.Details.Message
	}
	var other StructuredError
	if json.Unmarshal(e.body.Bytes(), &other) == nil {
		return other.Error.Message
	}
	return http.StatusText(e.status)
}
