// Package apptest knows a good request for every route of the service, and
// fills an organisation with one thing of every kind for them to name. The
// tests that ask every route something start from it.
package apptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Things are the ids, names and contents that an organisation has, by their
// kind: alert, entry, source, ...
type Things map[string]string

// A Row says how a route is asked. In its texts <kind> stands for the
// organisation's thing of that kind, and <new> for a name that is nobody's yet.
type Row struct {
	// Path is what stands for the route's parameters, in their order, separated by
	// spaces.
	Path string
	// Query is the part behind the question mark.
	Query string
	// Body is JSON, or what Type says.
	Body string
	Type string
	// Form is a multipart body: name, file name if it is a file, content.
	Form [][3]string
	// Header is a further header, "Name: value".
	Header string
	// Status is what a good request is answered; 0 where it is the route's own.
	Status int
	// Spends names the kind of thing that a good request uses up.
	Spends string
	// Whole routes refuse keys that have fewer permissions than their holder.
	Whole bool
	// Also is a permission that callers need beside the route's, unless they own the thing.
	Also access.Permission
	// Others is what the organisation gets that names another one's thing of a
	// kind in the query or the body. What stands in the path is 404, or 403 for
	// a source, unless it is named here as well.
	Others map[string]int
	// Echoes are the texts that name another organisation's things because the caller
	// sent their ids itself, in another request.
	Echoes []string
}

var (
	placeholder = regexp.MustCompile(`<([a-z_]+)>`)
	parameter   = regexp.MustCompile(`\{[^}]*\}`)
)

// RouteName names a route whatever its parameters are called.
func RouteName(method, path string) string {
	return strings.ToUpper(method) + " " + parameter.ReplaceAllString(path, "{}")
}

// Kinds lists the kinds of thing that a text names, once each.
func Kinds(texts ...string) []string {
	var all []string
	for _, text := range texts {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			if m[1] != "new" && m[1] != "archive" && !slices.Contains(all, m[1]) {
				all = append(all, m[1])
			}
		}
	}
	return all
}

// PathKinds are the kinds that the path names.
func (r Row) PathKinds() []string { return Kinds(r.Path) }

// BodyKinds are the kinds that the query or the body names and the path does not.
func (r Row) BodyKinds() []string {
	texts := []string{r.Query, r.Body}
	for _, part := range r.Form {
		texts = append(texts, part[2])
	}
	return slices.DeleteFunc(Kinds(texts...), func(kind string) bool { return slices.Contains(r.PathKinds(), kind) })
}

// OthersStatus is what an organisation gets that names another one's thing of
// a kind.
func (r Row) OthersStatus(kind string) int {
	if status, ok := r.Others[kind]; ok {
		return status
	}
	if strings.HasSuffix(kind, "source") {
		return http.StatusForbidden // the interface: otherwise 403
	}
	return http.StatusNotFound
}

// Echoed returns the echoes with another organisation's things.
func (r Row) Echoed(others Things) Things {
	all := Things{}
	for _, text := range r.Echoes {
		all[text] = others.fill(text)
	}
	return all
}

// fill puts things in place of their kinds. A kind that nothing is known of
// stays, and shows up in the answer.
func (things Things) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		kind := strings.Trim(m, "<>")
		if kind == "new" {
			return uuid.NewString()
		}
		if value, ok := things[kind]; ok {
			return value
		}
		return m
	})
}

// With returns the things with one of them replaced.
func (things Things) With(kind, value string) Things {
	changed := Things{}
	for k, v := range things {
		changed[k] = v
	}
	changed[kind] = value
	return changed
}

// A Request is one that can be sent, again and again.
type Request struct {
	Method, Path string // the path with its query
	Header       http.Header
	Body         []byte
}

// Request is the row's good request to a route, about an organisation's things.
func (r Row) Request(tb testing.TB, route httpapi.Route, things Things) Request {
	tb.Helper()
	values := strings.Fields(things.fill(r.Path))
	path := parameter.ReplaceAllStringFunc(route.Path, func(name string) string {
		if name == "{$}" {
			return ""
		}
		if len(values) == 0 {
			tb.Fatalf("the row of %s %s names too few things in its Path", route.Method, route.Path)
		}
		value := values[0]
		values = values[1:]
		return value
	})
	if r.Query != "" {
		path += "?" + things.fill(r.Query)
	}
	req := Request{Method: route.Method, Path: path, Header: http.Header{}}
	switch {
	case r.Form != nil:
		req.Body, req.Header = r.multipart(tb, things)
	case r.Body != "":
		req.Body = []byte(things.fill(r.Body))
		req.Header.Set("Content-Type", "application/json")
	}
	if r.Type != "" {
		req.Header.Set("Content-Type", r.Type)
	}
	if name, value, ok := strings.Cut(r.Header, ": "); ok {
		req.Header.Set(name, value)
	}
	return req
}

func (r Row) multipart(tb testing.TB, things Things) ([]byte, http.Header) {
	tb.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, part := range r.Form {
		create := func() (io.Writer, error) { return w.CreateFormField(part[0]) }
		if part[1] != "" {
			create = func() (io.Writer, error) { return w.CreateFormFile(part[0], part[1]) }
		}
		field, err := create()
		if err != nil {
			tb.Fatal(err)
		}
		_, _ = io.WriteString(field, things.fill(part[2])) // into memory
	}
	_ = w.Close()
	return body.Bytes(), http.Header{"Content-Type": {w.FormDataContentType()}}
}

// An Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// A Client sends requests to one service. It follows no redirects.
type Client struct {
	URL  string
	HTTP *http.Client
	// Check, if not nil, is called with every answer.
	Check func(Request, Answer)
}

// NewClient returns a client that keeps its connections.
func NewClient(tb testing.TB, url string) *Client {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}
	tb.Cleanup(transport.CloseIdleConnections)
	return &Client{URL: url, HTTP: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do sends a request; header is added to its own.
func (c *Client) Do(ctx context.Context, r Request, header http.Header) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, c.URL+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return Answer{}, err
	}
	for _, h := range []http.Header{r.Header, header} {
		for name, values := range h {
			req.Header[name] = values
		}
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a := Answer{res.StatusCode, res.Header, string(body)}
	if err == nil && c.Check != nil {
		c.Check(r, a)
	}
	return a, err
}

// Bearer is the header with a key in its place.
func Bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

// At returns the text of a value in a JSON answer: keys and indexes joined by
// dots.
func (a Answer) At(path string) (string, error) {
	var value any
	decoder := json.NewDecoder(strings.NewReader(a.Body))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return "", fmt.Errorf("%w in %s", err, a.Body)
	}
	for step := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(v) {
				return "", fmt.Errorf("no %s in %s", path, a.Body)
			}
			value = v[i]
		}
	}
	if value == nil {
		return "", fmt.Errorf("no %s in %s", path, a.Body)
	}
	return fmt.Sprint(value), nil
}
