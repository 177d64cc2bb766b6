package httpapi

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// HandleMissing sets the handler that serves browsers when no route matches.
// Other clients get the structured error.
func (a *API) HandleMissing(handler http.Handler) { a.missing = handler }

// wantsPage reports whether the client is a browser: it accepts HTML, and the path
// is not of the API.
func wantsPage(r *http.Request) bool {
	for _, prefix := range []string{"/api/", "/v1/", "/.well-known/"} {
		if strings.HasPrefix(r.URL.Path, prefix) {
			return false
		}
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// Status returns the HTTP status of an error of that kind.
func Status(kind fault.Kind) int { return statuses[kind] }

// Limit applies a route's rate limit to a request that a plain handler serves, and
// sets the RateLimit headers, as for typed routes. Over the limit the error is
// fault.Limited.
func (a *API) Limit(w http.ResponseWriter, req *http.Request, r Route, c access.Caller) error {
	return a.rateLimit(w, req, r, c)
}

// BoundBody bounds the time and the memory of a body that a plain handler reads,
// as for typed routes.
func (a *API) BoundBody(req *http.Request, public bool) {
	if s, ok := req.Context().Value(stateKey{}).(*requestState); ok {
		_ = s.control.SetReadDeadline(time.Now().Add(a.bodyTimeoutOf(public))) // fails only without a connection
	}
	req.Body = struct {
		io.Reader
		io.Closer
	}{a.meter(req, public, req.Body), req.Body}
}

// CheckText refuses NUL and invalid UTF-8 in a path, a query or the fields of a
// form, as typed routes do.
func CheckText(u *url.URL, form url.Values) error {
	issues := textIssues(u)
	for name, values := range form {
		if !text.Valid(name + strings.Join(values, "")) {
			issues = append(issues, fault.At("", "a field of the form is not valid text"))
		}
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// SetCaller sets the caller of a request that a plain handler serves, for the log.
func SetCaller(req *http.Request, c access.Caller) { setCaller(req.Context(), c) }
