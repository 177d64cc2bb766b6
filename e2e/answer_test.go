package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// send sends a broken request and says what is wrong with the answer, if
// anything. Its status is 0 if the server hung up.
func (p *process) send(t *testing.T, r *broken, page bool) (status int, problem string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	target := &url.URL{Scheme: "http", Host: strings.TrimPrefix(p.url, "http://")}
	path, query, _ := strings.Cut(r.Path, "?")
	target.Opaque, target.RawQuery = "//"+target.Host+path, query // as it is, whatever it is
	if unsendable(path) || unsendable(query) {
		return -1, ""
	}
	req := (&http.Request{Method: r.Method, URL: target, Host: target.Host, Header: r.Header.Clone(), ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(r.Body)), int64(len(r.Body))
	if r.Header.Get("Transfer-Encoding") == "chunked" {
		req.ContentLength = -1
	}
	res, err := p.client.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return 0, "no answer in two minutes"
		}
		if isOurs(err) {
			return -1, ""
		}
		return 0, "" // a body that is refused early breaks the connection
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil && res.Header.Get("X-Request-Id") != "" { // the server itself hangs up on what is not HTTP
		return res.StatusCode, fmt.Sprintf("%d, and the body broke off: %v", res.StatusCode, err)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return res.StatusCode, "101"
	}
	return res.StatusCode, r.judge(res, body, page)
}

// unsendable paths are refused by the client.
func unsendable(path string) bool {
	return strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// isOurs reports whether the client refused to send the request.
func isOurs(err error) bool {
	var failed *url.Error
	return errors.As(err, &failed) && strings.Contains(err.Error(), "invalid")
}

// ofHeaders are the statuses that a range or a condition in the head asks for.
var ofHeaders = []int{http.StatusNotModified, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable}

// judge says what is wrong with an answer.
func (r *broken) judge(res *http.Response, body []byte, page bool) string {
	status := res.StatusCode
	show := func(what string) string { return fmt.Sprintf("%s: %d %v %.500s", what, status, res.Header, body) }
	switch {
	case res.Header.Get("X-Request-Id") == "":
		if fromServer(status) {
			return ""
		}
		return show("no X-Request-Id")
	case status >= 500 && (status != http.StatusServiceUnavailable || !page && !slices.Contains(r.statuses, status)):
		return show("a fault of ours")
	case page:
		return ""
	case !r.moved && !slices.Contains(r.statuses, status) && !slices.Contains(ofHeaders, status):
		return show("the document does not declare this status")
	case status < 400 || status == http.StatusRequestedRangeNotSatisfiable || r.Method == http.MethodHead:
		return ""
	case strings.Contains(r.Header.Get("Accept"), "html") && strings.HasPrefix(res.Header.Get("Content-Type"), "text/html"):
		return "" // a person in a browser
	}
	if isOTLP(r.route.Path) && (bytes.HasPrefix(body, []byte(`{"code":`)) || res.Header.Get("Content-Type") == "application/x-protobuf") {
		return "" // OTLP has an error body of its own, in the encoding of the request
	}
	if problem := errorProblem(res, body); problem != "" {
		return show(problem)
	}
	return ""
}

func isOTLP(path string) bool {
	return slices.Contains([]string{"/v1/logs", "/v1/traces", "/v1/metrics"}, path)
}

// fromServer reports whether a status may come from the HTTP server itself,
// which answers what is not HTTP before anybody else sees it.
func fromServer(status int) bool {
	return slices.Contains([]int{400, 417, 431, 501, 505}, status)
}

// errorProblem says in how far an error is none of the contract's two bodies.
func errorProblem(res *http.Response, body []byte) string {
	if res.Header.Get("Content-Type") != "application/json" {
		return "an error that is not JSON"
	}
	var either struct {
		Error   json.RawMessage
		Details *struct {
			Path    []string
			Message string
		}
		Issues []struct {
			Path    []string
			Message string
		}
	}
	if err := json.Unmarshal(body, &either); err != nil {
		return "an error that is not valid JSON"
	}
	if res.StatusCode == http.StatusBadRequest {
		if string(either.Error) != `"Validation failed"` || either.Details == nil || either.Details.Path == nil || either.Details.Message == "" || len(either.Issues) == 0 {
			return "400 without its body"
		}
		return ""
	}
	var structured struct {
		Message string
		Status  int
	}
	if err := json.Unmarshal(either.Error, &structured); err != nil || structured.Message == "" || structured.Status != res.StatusCode {
		return "an error without its body"
	}
	return ""
}
