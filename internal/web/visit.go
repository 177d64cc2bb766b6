package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// A visit is one request for a page. It embeds the request, so that handlers read
// forms and paths as usual.
type visit struct {
	*http.Request
	w         http.ResponseWriter
	Caller    access.Caller // zero on public pages without a session
	sessionID string
	page      string // the address of the page that a form was sent from; "" if none was
	list      tableRequest
}

// policy is the Content-Security-Policy. It keeps pages from running or loading
// anything from elsewhere, even if a text were not escaped (XSS). Scripts and styles
// are files of this server; none is inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// handler serves a route: it authenticates and authorizes the caller as the API
// does, calls the page's function, and writes what that returns.
func (s *Service) handler(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		setHeaders(w.Header())
		v := &visit{Request: req.WithContext(audit.By(req.Context(), audit.Web)), w: w}
		v.list = tableRequest{Path: req.URL.EscapedPath(), Query: req.URL.Query(), Sorts: r.sorts}
		// A form that was refused is shown at its own address, see frame.Address.
		if r.method == http.MethodPost {
			v.page = addressOf(r.page, req.URL.EscapedPath())
			v.list.Path = v.page
		}
		a, err := s.serve(v, r)
		if err != nil {
			a = s.failure(v, err)
		}
		a.write(s, v)
	})
}

// setHeaders sets what all pages have. A template cannot forget it that way.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	// After signing out, the back button must not show a page again.
	h.Set("Cache-Control", "no-store")
	// Paths have names of skills and codes of logins, which are no other site's business.
	h.Set("Referrer-Policy", "same-origin")
	// A site that opens a page in a window gets no handle on it (XS-Leaks).
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Vary", "Cookie")
}

func (s *Service) serve(v *visit, r route) (answer, error) {
	// CSRF: net/http's CrossOriginProtection rejects forms that another site sent
	// with this browser's session cookie, by Sec-Fetch-Site or the Origin header.
	// So there is no CSRF token. It is checked before anything else, the login form
	// included.
	if err := s.csrf.Check(v.Request); err != nil {
		return answer{}, fault.New(fault.Denied,
			"This form was sent from another site; open the page here and send it again").Because(err)
	}
	if err := s.admit(v, r); err != nil {
		return answer{}, err
	}
	// A full disk refuses changes before their body is read.
	full := httpapi.Route{Method: r.method, Permission: r.permission, WhenFull: whenFull(r.path)}
	if err := s.api.CheckRoom(full); err != nil {
		return answer{}, err
	}
	// Limits are by caller, so they come after authentication. Those of Failures count
	// only refused attempts, below: guessing keys and codes is what they slow down.
	if r.limit != nil && !r.limit.Failures {
		if err := s.rateLimit(v, r); err != nil {
			return answer{}, err
		}
	}
	if err := s.readForm(v, r); err != nil {
		return answer{}, err
	}
	a, err := s.do(v, r)
	a = v.within(a)
	// A refused form counts; an error page does not, since nothing was tried.
	if r.limit != nil && r.limit.Failures && a.problem != nil {
		if err := s.rateLimit(v, r); err != nil {
			return answer{}, err
		}
	}
	return a, err
}

// do calls the page's function. A page may be read from a replica of the database;
// what is written of it afterwards, e.g. events, may not. Forms read what they have
// just written, which a replica may not have yet.
func (s *Service) do(v *visit, r route) (a answer, err error) {
	if r.method != http.MethodGet || r.public {
		return r.do(s, v)
	}
	req := v.Request
	defer func() { v.Request = req }()
	err = s.api.FromReplica(v.Context(), func(ctx context.Context) error {
		v.Request = req.WithContext(ctx)
		a, err = r.do(s, v)
		return err
	})
	return a, err
}

// rateLimit counts the request against the route's limit. Each route counts for
// itself, in the database, for all replicas together.
func (s *Service) rateLimit(v *visit, r route) error {
	return s.api.Limit(v.w, v.Request, httpapi.Route{Method: r.method, Path: r.path, Limit: r.limit}, v.Caller)
}

// readForm limits the body, parses a plain form, and rejects text that the
// databases cannot store. Forms with files are parsed by the page's function.
func (s *Service) readForm(v *visit, r route) error {
	if v.Method != http.MethodPost {
		return httpapi.CheckText(v.URL, nil)
	}
	s.api.BoundBody(v.Request, v.sessionID == "")
	v.Body = http.MaxBytesReader(v.w, v.Body, cmp.Or(r.maxBody, httpapi.DefaultMaxBody))
	if err := v.ParseForm(); err != nil {
		_, large := errors.AsType[*http.MaxBytesError](err)
		if fault.Of(err) != fault.Internal || large { // its message is better than ours
			return err
		}
		return fault.New(fault.Malformed, "The form could not be read").Because(err)
	}
	if !r.upload { // net/http notices that a browser is gone only after the whole body
		if err := httpapi.DrainBody(v.Request); err != nil {
			return err
		}
	}
	return httpapi.CheckText(v.URL, v.PostForm)
}

// admit authenticates and authorizes in the contract's order: session, plan,
// permission. A public page needs none, but knows the session if there is one.
func (s *Service) admit(v *visit, r route) error {
	err := s.authenticate(v)
	if r.public && fault.Is(err, fault.Unauthorized) {
		return nil
	}
	if err != nil || r.public {
		return err
	}
	// Asked first, since it costs nothing: who owns an entry takes a query.
	refusal := r.authorize(v.Caller)
	if r.owns == nil || v.Caller.May(r.permission) || !r.includedIn(v.Caller.Plan) {
		return refusal
	}
	if owner, err := r.owns(s, v.Context(), v.Caller, v.PathValue("id")); err != nil || owner {
		return err
	}
	return refusal
}

// includedIn reports whether a plan has the route; "" is in every plan.
func (r route) includedIn(p access.Plan) bool { return r.plan == "" || p.Includes(r.plan) }

// authorize checks the caller's plan and permission, as the API does.
func (r route) authorize(c access.Caller) error {
	if !r.includedIn(c.Plan) {
		return fault.New(fault.Denied, "This needs the %s plan or higher; the organisation is on %s", r.plan, c.Plan)
	}
	if r.permission != "" && !c.May(r.permission) {
		return fault.New(fault.Denied, "This needs the permission %s, which an admin can give you", r.permission)
	}
	return nil
}

// authenticate sets the caller from the browser's session cookie. It also extends
// the session, which ends after a time without use.
func (s *Service) authenticate(v *visit) error {
	token := s.cookie(v, sessionCookie)
	if token == "" {
		return fault.New(fault.Unauthorized, "Please sign in")
	}
	caller, id, err := s.Auth.Resume(v.Context(), token)
	if err != nil {
		return err
	}
	httpapi.SetCaller(v.Request, caller)
	v.Caller, v.sessionID = caller, id
	v.Request = v.WithContext(access.With(v.Context(), caller))
	return nil
}
