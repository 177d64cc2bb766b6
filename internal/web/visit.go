package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// A visit is one request for a page, by a person.
type visit struct {
	*http.Request
	w         http.ResponseWriter
	Caller    access.Caller // zero on public pages that were visited without a session
	sessionID string
}

// policy keeps pages from running or loading anything that is not ours, even
// if a text slipped through unescaped.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// handler serves a route: it finds out who is there, checks as the API does,
// and writes what the page's function returns.
func (s *Service) handler(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		setHeaders(w.Header())
		v := &visit{Request: req.WithContext(audit.By(req.Context(), audit.Web)), w: w}
		a, err := s.serve(v, r)
		if err != nil {
			a = s.failure(v, err)
		}
		a.write(s, v)
	})
}

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Vary", "Cookie")
}

func (s *Service) serve(v *visit, r route) (answer, error) {
	if err := s.origins.Check(v.Request); err != nil {
		return answer{}, fault.New(fault.Denied, "This form was sent from another site; open the page here and send it again").Because(err)
	}
	if err := s.admit(v, r); err != nil {
		return answer{}, err
	}
	if err := s.api.CheckRoom(httpapi.Route{Method: r.method, Permission: r.permission, WhenFull: whenFull(r.path)}); err != nil {
		return answer{}, err
	}
	if r.limit != nil && !r.limit.Failures {
		if err := s.count(v, r); err != nil {
			return answer{}, err
		}
	}
	if err := s.readForm(v, r); err != nil {
		return answer{}, err
	}
	a, err := r.do(s, v)
	if r.limit != nil && r.limit.Failures && a.problem != nil {
		if err := s.count(v, r); err != nil {
			return answer{}, err
		}
	}
	return a, err
}

// count counts the visit against the route's limit.
func (s *Service) count(v *visit, r route) error {
	return s.api.Limit(v.w, v.Request, httpapi.Route{Method: r.method, Path: r.path, Limit: r.limit}, v.Caller)
}

// readForm bounds a body and reads a plain form, and refuses what is no text.
// A form with files is left to the page's function, if that takes uploads.
func (s *Service) readForm(v *visit, r route) error {
	if v.Method != http.MethodPost {
		return httpapi.CheckText(v.URL, nil)
	}
	s.api.BoundBody(v.Request, v.sessionID == "")
	v.Body = http.MaxBytesReader(v.w, v.Body, cmp.Or(r.maxBody, httpapi.DefaultMaxBody))
	if err := v.ParseForm(); err != nil {
		_, large := errors.AsType[*http.MaxBytesError](err)
		if fault.Of(err) != fault.Internal || large { // there is a reason that has a name
			return err
		}
		return fault.New(fault.Malformed, "The form could not be read").Because(err)
	}
	if !r.upload {
		if err := httpapi.DrainBody(v.Request); err != nil {
			return err
		}
	}
	return httpapi.CheckText(v.URL, v.PostForm)
}

// admit checks in the contract's order: session, plan, permission.
func (s *Service) admit(v *visit, r route) error {
	err := s.resume(v)
	if r.public && fault.Is(err, fault.Unauthorized) {
		return nil
	}
	if err != nil || r.public {
		return err
	}
	return r.check(v.Caller)
}

// check says whether the caller may ask for the route, as the API does.
func (r route) check(c access.Caller) error {
	if r.plan != "" && !c.Plan.Includes(r.plan) {
		return fault.New(fault.Denied, "This needs the %s plan or higher; the organisation is on %s", r.plan, c.Plan)
	}
	if r.permission != "" && !c.May(r.permission) {
		return fault.New(fault.Denied, "This needs the permission %s", r.permission)
	}
	return nil
}

// resume finds out whose session the browser has.
func (s *Service) resume(v *visit) error {
	token := s.cookie(v, sessionCookie)
	if token == "" {
		return fault.New(fault.Unauthorized, "Please sign in")
	}
	caller, id, err := s.Auth.Resume(v.Context(), token)
	if err != nil {
		return err
	}
	httpapi.NoteCaller(v.Request, caller)
	v.Caller, v.sessionID = caller, id
	v.Request = v.WithContext(access.With(v.Context(), caller))
	return nil
}

// address is where the browser is, as far as this process can tell.
func (v *visit) address() string {
	return httpapi.ClientAddr(v.Context()).String()
}

// pageNumber is the page of a list that was asked for, from 1.
func (v *visit) pageNumber() int { return pageOf(v.URL.Query()) }

// offset is where the page of a list begins.
func (v *visit) offset(perPage int) int { return (v.pageNumber() - 1) * perPage }

// maxPage keeps offsets within what the databases take.
const maxPage = 1_000_000

func pageOf(query url.Values) int {
	n, err := strconv.Atoi(query.Get("page"))
	if err != nil || n < 1 {
		return 1
	}
	return min(n, maxPage)
}
