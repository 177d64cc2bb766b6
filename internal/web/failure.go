package web

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// failureView is the data of an error page.
type failureView struct {
	Status  int
	Message string
	Issues  []fault.Issue
	Request string // request id, for the operator's log
}

// titles are the headings of error pages; others have the standard text of the status.
var titles = map[int]string{
	http.StatusBadRequest:            "Invalid request",
	http.StatusUnauthorized:          "Please sign in",
	http.StatusForbidden:             "Access denied",
	http.StatusNotFound:              "Not found",
	http.StatusConflict:              "Conflict",
	http.StatusRequestEntityTooLarge: "Too large",
	http.StatusTooManyRequests:       "Too many attempts",
	http.StatusInternalServerError:   "Something went wrong",
	http.StatusServiceUnavailable:    "Service unavailable",
	http.StatusBadGateway:            "Another server failed",
}

// failure returns the page of an error. Without a session it redirects to the login
// page, which leads back afterwards; a form is not redirected, because its input would
// be lost. Internal errors show only the request id, and are logged here.
func (s *Service) failure(v *visit, err error) answer {
	kind := fault.Of(err)
	if kind == fault.Unauthorized && (v.Method == http.MethodGet || v.Method == http.MethodHead) {
		return redirect("/login?next="+url.QueryEscape(v.URL.RequestURI()), "")
	}
	view := failureView{Status: httpapi.Status(kind), Request: v.w.Header().Get("X-Request-Id")}
	// A body over the limit is an error of net/http and has no kind.
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		view.Status = http.StatusRequestEntityTooLarge
		view.Message = "The form is over the limit of " + strconv.FormatInt(large.Limit>>20, 10) + " MiB"
	} else if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind != fault.Internal {
		view.Message, view.Issues = e.Message, e.Issues
		if e.RetryAfter > 0 {
			v.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
		}
	}
	// If the browser has disconnected, what failed is most likely a cancelled query.
	if view.Status >= http.StatusInternalServerError && v.Context().Err() == nil {
		level := slog.LevelWarn // overloaded, or the fault of another server
		if kind == fault.Internal {
			level = slog.LevelError
		}
		s.Log.Log(v.Context(), level, "page failed", "request_id", view.Request, "page", v.Pattern, "error", err)
	}
	title, ok := titles[view.Status]
	if !ok {
		title = http.StatusText(view.Status)
	}
	a := show("failure", title, view)
	a.status = view.Status
	return a
}

// handleMissing is the page for unknown paths.
func (s *Service) handleMissing(v *visit) (answer, error) {
	return answer{}, fault.New(fault.NotFound, "There is no page at %s", v.URL.Path)
}
