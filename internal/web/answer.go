package web

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// An answer is what a page's function returns: a page, a redirect, or bytes.
type answer struct {
	status   int
	template string
	title    string
	data     any
	problem  *fault.Error
	location string
	flash    string
	send     func(http.ResponseWriter) error
}

// show is a page.
func show(template, title string, data any) answer {
	return answer{status: http.StatusOK, template: template, title: title, data: data}
}

// redirect ends a change: the browser asks for the path, where the message is
// shown once.
func redirect(path, message string) answer {
	return answer{status: http.StatusSeeOther, location: path, flash: message}
}

// raw lets fn write the answer itself: a download, a stream of events. An
// error after the first byte can only be logged.
func raw(fn func(http.ResponseWriter) error) answer { return answer{send: fn} }

// stream answers as an operation of the API does.
func stream(v *visit, s httpapi.Stream) answer {
	return raw(func(w http.ResponseWriter) error {
		s(w, v.Request)
		return nil
	})
}

// refused shows the form again with what is wrong with it. An error that the
// person cannot mend in the form is given back.
func (a answer) refused(err error) (answer, error) {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || !slices.Contains(mendable, e.Kind) {
		return answer{}, err
	}
	a.problem, a.status = e, httpapi.Status(e.Kind)
	return a, nil
}

// mendable are the kinds of error about which a person can do something in the
// form.
var mendable = []fault.Kind{fault.Malformed, fault.Conflict, fault.NotFound, fault.TooLarge, fault.Unauthorized, fault.Denied}

// A frame is what a template sees.
type frame struct {
	Title     string
	Data      any
	Caller    access.Caller
	SignedIn  bool
	Flash     string
	Theme     string // light, dark, or "" for what the system says
	Path      string
	PublicURL string
	Nav       []navItem

	problem *fault.Error
	query   url.Values
}

// May reports whether the caller has a permission, for buttons.
func (f frame) May(permission string) bool { return f.Caller.May(access.Permission(permission)) }

// Plan reports whether the organisation's plan includes another.
func (f frame) Plan(plan string) bool { return f.Caller.Plan.Includes(access.Plan(plan)) }

// Problems lists what is wrong with a form, in a person's words.
func (f frame) Problems() []string {
	if f.problem == nil {
		return nil
	}
	if len(f.problem.Issues) == 0 {
		return []string{f.problem.Message}
	}
	all := make([]string, len(f.problem.Issues))
	for i, issue := range f.problem.Issues {
		all[i] = issue.Message
	}
	return all
}

// Problem is what is wrong with one field, or "".
func (f frame) Problem(path string) string {
	if f.problem == nil {
		return ""
	}
	for _, issue := range f.problem.Issues {
		if strings.Join(issue.Path, ".") == path {
			return issue.Message
		}
	}
	return ""
}

func (a answer) write(s *Service, v *visit) {
	switch {
	case a.send != nil:
		if err := a.send(v.w); err != nil {
			s.Log.Warn("a page was cut off", "request_id", v.w.Header().Get("X-Request-Id"), "error", err)
		}
	case a.location != "":
		s.setFlash(v, a.flash)
		http.Redirect(v.w, v.Request, a.location, a.status)
	default:
		a.render(s, v)
	}
}

// render makes the whole page before it sends any of it, so that a template's
// error is not half a page.
func (a answer) render(s *Service, v *visit) {
	f := frame{
		Title: a.title, Data: a.data, Caller: v.Caller, SignedIn: v.sessionID != "", Theme: v.theme(),
		Path: v.URL.Path, PublicURL: s.PublicURL, problem: a.problem, query: v.URL.Query(),
	}
	if f.SignedIn {
		f.Nav = navFor(v.Caller, v.URL.Path)
	}
	f.Flash = s.takeFlash(v)
	var page bytes.Buffer
	if err := s.execute(&page, a.template, f); err != nil {
		s.Log.Error("page not rendered", "page", a.template, "request_id", v.w.Header().Get("X-Request-Id"), "error", err)
		http.Error(v.w, "This page could not be made; request "+v.w.Header().Get("X-Request-Id"), http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(a.status)
	_, _ = page.WriteTo(v.w) // the browser is gone if this fails
}

func (s *Service) execute(w io.Writer, page string, f frame) error {
	t, err := s.templates[page]()
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(w, "layout", f)
}

func (s *Service) setFlash(v *visit, message string) {
	if message == "" {
		return
	}
	s.setCookie(v, flashCookie, base64.RawURLEncoding.EncodeToString([]byte(message)), 60)
}

// takeFlash returns the message of the change before, once.
func (s *Service) takeFlash(v *visit) string {
	value := s.cookie(v, flashCookie)
	if value == "" {
		return ""
	}
	s.clearCookie(v, flashCookie)
	message, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return ""
	}
	return string(message)
}
