package web

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// An answer is what a page's function returns: a page (template), a redirect
// (location), or bytes (send). The functions write nothing themselves, so that an error
// can still become an error page.
type answer struct {
	status   int // HTTP status of a page or redirect
	template string
	title    string
	data     any          // data of the template
	problem  *fault.Error // what is wrong with the submitted form
	location string
	flash    flash // message for the next page
	send     func(http.ResponseWriter) error
}

// show returns a page with status 200.
func show(template, title string, data any) answer {
	return answer{status: http.StatusOK, template: template, title: title, data: data}
}

// redirect ends a change (post/redirect/get): the browser requests the path, and
// that page shows the message once (a flash message).
func redirect(path, message string) answer {
	return answer{status: http.StatusSeeOther, location: path, flash: flash{Text: message}}
}

// A flash is a message of the request before, with a link to what it made, or a button that
// undoes it; "" without one.
type flash struct{ Text, URL, Link, Undo string }

// linking adds a link to the message of a redirect.
func (a answer) linking(path, text string) answer {
	a.flash.URL, a.flash.Link = path, text
	return a
}

// undoneBy adds a button to the message of a redirect, which posts to the path.
func (a answer) undoneBy(path string) answer {
	a.flash.Undo = path
	return a
}

// raw lets fn write the response: a download, or an event stream. An error after
// the first byte can only be logged.
func raw(fn func(http.ResponseWriter) error) answer { return answer{send: fn} }

// stream returns the response of an operation that the API has, too, e.g. a download.
func stream(v *visit, s httpapi.Stream) answer {
	return raw(func(w http.ResponseWriter) error {
		s(w, v.Request)
		return nil
	})
}

// refused shows the form again with what is wrong with it, and the status of the error.
// An error that cannot be corrected in the form is returned, for an error page.
// Handlers end with it, so that every problem of a form looks alike.
func (a answer) refused(err error) (answer, error) {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || !slices.Contains(correctable, e.Kind) {
		return answer{}, err
	}
	a.problem, a.status = e, httpapi.Status(e.Kind)
	return a, nil
}

// correctable are the kinds of errors that a person can correct in the form, e.g. with
// another key (Unauthorized) or a role that they may give (Denied).
var correctable = []fault.Kind{
	fault.Malformed, fault.Conflict, fault.NotFound, fault.TooLarge, fault.Unauthorized, fault.Denied,
}

// A frame is the data of a template: that of the page, and what all pages share. Its
// methods are what templates can ask, besides the functions of New.
type frame struct {
	Title     string
	Data      any
	Caller    access.Caller
	SignedIn  bool
	Flash     flash  // message of the request before, shown once
	Theme     string // light, dark, or "" for the system's setting
	Path      string
	Address   string // address of the page after a refused form, for a reload or a bookmark; "" to keep the form's
	PublicURL string
	Nav       []navGroup
	Settings  []navGroup // the list of settings, on their pages

	problem *fault.Error
	list    tableRequest
}

// May reports whether the caller has a permission: pages omit buttons that would be
// refused. It is a convenience only: routes check permissions themselves.
func (f frame) May(permission string) bool { return f.Caller.May(access.Permission(permission)) }

// Plan reports whether the organisation's plan includes another one.
func (f frame) Plan(plan string) bool { return f.Caller.Plan.Includes(access.Plan(plan)) }

// Problems lists what is wrong with the submitted form, for the top of the page.
func (f frame) Problems() []string {
	if f.problem == nil {
		return nil
	}
	if len(f.problem.Issues) == 0 {
		return []string{f.problem.Message}
	}
	all := make([]string, len(f.problem.Issues))
	for i, issue := range f.problem.Issues {
		all[i] = inWords(issue)
	}
	return all
}

// ProblemsBut is Problems without the fields that show their own problem. Each
// problem is then shown exactly once.
func (f frame) ProblemsBut(fields ...string) []string {
	if f.problem == nil || len(f.problem.Issues) == 0 {
		return f.Problems()
	}
	var all []string
	for _, issue := range f.problem.Issues {
		if !slices.Contains(fields, strings.Join(issue.Path, ".")) {
			all = append(all, inWords(issue))
		}
	}
	return all
}

// Problem returns what is wrong with one field, or "". path is that of an issue,
// e.g. "config.email"; of several the first is shown.
func (f frame) Problem(path string) string {
	if f.problem == nil {
		return ""
	}
	for _, issue := range f.problem.Issues {
		if strings.Join(issue.Path, ".") == path {
			return inWords(issue)
		}
	}
	return ""
}

// inWords is the message of an issue without the API's name of the field, with which it
// begins: "config.webhook_url must be an address" becomes "Webhook URL must be an address".
func inWords(issue fault.Issue) string {
	path := strings.Join(issue.Path, ".")
	for _, name := range []string{path, path[strings.LastIndexByte(path, '.')+1:]} {
		rest, ok := strings.CutPrefix(issue.Message, name+" ")
		if !ok || name == "" {
			continue
		}
		label := strings.NewReplacer("config.", "", "url", "URL", "_", " ", ".", " ").Replace(name)
		if rest == "must not be blank" {
			return "Enter the " + label
		}
		return strings.ToUpper(label[:1]) + label[1:] + " " + rest
	}
	return issue.Message
}

// write writes the answer as the response.
func (a answer) write(s *Service, v *visit) {
	switch {
	case a.send != nil:
		// The header is already sent, so the status cannot change any more.
		if err := a.send(v.w); err != nil {
			s.Log.Warn("response truncated", "request_id", v.w.Header().Get("X-Request-Id"), "error", err)
		}
	case a.location != "":
		// In base64, because a cookie cannot hold spaces or non-ASCII characters. 60
		// seconds: the browser follows the redirect at once, or never.
		if a.flash.Text != "" {
			value, _ := json.Marshal(a.flash) // strings can be encoded
			s.setCookie(v, flashCookie, base64.RawURLEncoding.EncodeToString(value), 60)
		}
		http.Redirect(v.w, v.Request, a.location, a.status)
	default:
		a.render(s, v)
	}
}

// render executes the template into a buffer, so that an error in it does not leave
// half a page.
func (a answer) render(s *Service, v *visit) {
	f := frame{
		Title: a.title, Data: a.data, Caller: v.Caller, SignedIn: v.sessionID != "", Theme: v.theme(),
		Path: v.URL.Path, Address: v.page, PublicURL: s.PublicURL, problem: a.problem, list: v.list,
	}
	if f.SignedIn {
		visible := s.visiblePages(v.Caller)
		f.Nav = visibleNav(menu, visible, v.URL.Path)
		if within(v.URL.Path, "/settings") {
			f.Settings = visibleNav(settingsMenu, visible, v.URL.Path)
		}
	}
	// Before the header is written: it deletes the cookie.
	f.Flash = s.takeFlash(v)
	var page bytes.Buffer
	// Parsed on first use, see pageTemplate.
	t, err := s.templates[a.template]()
	if err == nil {
		err = t.ExecuteTemplate(&page, "layout", f)
	}
	if err != nil {
		id := v.w.Header().Get("X-Request-Id")
		s.Log.Error("page not rendered", "page", a.template, "request_id", id, "error", err)
		http.Error(v.w, "This page could not be rendered; request "+id, http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(a.status)
	_, _ = v.w.Write(labelCells(page.Bytes())) // fails if the browser has disconnected
}

// takeFlash returns the flash message of the previous request, or none, and clears it.
// A cookie can be forged by its owner only, and the template escapes message and link.
func (s *Service) takeFlash(v *visit) (f flash) {
	value := s.cookie(v, flashCookie)
	if value == "" {
		return f
	}
	s.clearCookie(v, flashCookie)
	text, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || json.Unmarshal(text, &f) != nil {
		return flash{}
	}
	return f
}
