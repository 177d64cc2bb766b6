package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

type problem struct {
	Text string `json:"text"`
}

// TestErrorFormat: every error of a route is encoded by its own format, whoever
// finds it; successes and headers stay.
func TestErrorFormat(t *testing.T) {
	format := &httpapi.ErrorFormat{
		Encode: func(h http.Header, status int, message string) (string, []byte) {
			return "text/problem", fmt.Appendf(nil, "%s %d %s", h.Get("X-Asked"), status, message)
		},
		Bodies: []httpapi.Media{{Type: "text/problem", Body: problem{}}},
	}
	route := func(path string) httpapi.Route {
		return httpapi.Route{Method: "POST", Path: path, MaxBody: 20, Errors: format}
	}
	f := newFrame(t, nil, func(a *httpapi.API) {
		httpapi.Add(a, measure, route("/measure"))
		httpapi.Add(a, func(context.Context, rawInput) (httpapi.None, error) {
			return httpapi.None{}, fault.New(fault.Conflict, "Already there")
		}, route("/conflict"))
		httpapi.Add(a, func(context.Context, rawInput) (httpapi.None, error) {
			return httpapi.None{}, fault.Invalid("size", "size is odd")
		}, route("/invalid"))
	})
	for _, c := range []struct {
		path, body, header string
		status             int
		want               string
	}{
		{"/measure", "12345", "X-Asked: by", 200, `{"bytes":5}` + "\n"},
		{"/measure", "12345", "Authorization: Bearer nobody", 401, " 401 Unknown API key"},
		{"/measure", "123456789012345678901", "X-Asked: by", 413, "by 413 The body is over the limit of 20 bytes"},
		{"/measure", "1", "Content-Encoding: br", 415, ` 415 Content-Encoding "br" is not read here`},
		{"/conflict", "1", "X-Asked: by", 409, "by 409 Already there"},
		{"/invalid", "1", "X-Asked: by", 400, "by 400 size is odd"},
	} {
		r := f.do(t, "POST", c.path, c.body, c.header).Want(c.status)
		if string(r.Body) != c.want {
			t.Errorf("%s with %s: %q, want %q", c.path, c.header, r.Body, c.want)
		}
		if got := r.Header.Get("Content-Type"); c.status >= 400 && got != "text/problem" {
			t.Errorf("%s with %s: Content-Type %q", c.path, c.header, got)
		}
		if c.status == 401 && r.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("the header is lost: %v", r.Header)
		}
	}
	raw, err := f.API.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []string{"400", "401", "413", "500"} {
		at(t, parse(t, raw), "paths", "/measure", "post", "responses", status, "content", "text/problem", "schema", "$ref")
	}
}
