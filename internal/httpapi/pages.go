package httpapi

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// HandleMissing lets a handler answer people who ask for a page that no route
// takes. Programs get the structured error.
func (a *API) HandleMissing(handler http.Handler) { a.missing = handler }

// wantsPage tells people from programs: only browsers ask for HTML, and never
// below the API's paths.
func wantsPage(r *http.Request) bool {
	for _, prefix := range []string{"/api/", "/v1/", "/.well-known/"} {
		if strings.HasPrefix(r.URL.Path, prefix) {
			return false
		}
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// Status is the status of an answer that tells of an error of that kind.
func Status(kind fault.Kind) int { return statuses[kind] }

// Limit counts a request that a plain handler serves against a route's limit,
// and tells the client where it stands, as typed routes do. Over the limit the
// error is of kind fault.Limited.
func (a *API) Limit(w http.ResponseWriter, req *http.Request, r Route, c access.Caller) error {
	return a.limit(w, req, r, c)
}

// BoundBody bounds the time that a client may take for a body that a plain
// handler reads, and the memory that the body takes, as for typed routes.
func (a *API) BoundBody(req *http.Request, public bool) {
	if s, ok := req.Context().Value(stateKey{}).(*requestState); ok {
		_ = s.control.SetReadDeadline(time.Now().Add(a.bodyTime(public))) // fails only without a connection
	}
	req.Body = struct {
		io.Reader
		io.Closer
	}{a.meter(req, public, req.Body), req.Body}
}

// CheckText refuses a path, a query or the fields of a form that are no text,
// as typed routes do.
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

// NoteCaller remembers who makes a request that a plain handler serves, for
// the log.
func NoteCaller(req *http.Request, c access.Caller) { noteCaller(req.Context(), c) }
