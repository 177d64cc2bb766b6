// Package client talks to a Whetstone server: it publishes skills to the
// registry, finds and downloads them, reports sessions and installations, and
// runs evals.
//
// A call is retried with backoff when the server cannot be reached, is not ready
// or limits the rate, a few times and for as long as its context allows. Calls
// that are not idempotent (CreateEntry, Rollback, StartDeviceLogin) are retried
// only if the first try cannot have had an effect. An error response of the
// server is an *Error.
package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Options select the server and the caller.
type Options struct {
	// Server is the address of the server, e.g. https://whetstone.example.
	Server string
	// APIKey is sent to this server only. It may be empty for the login.
	APIKey string
	// HTTPClient makes the requests; nil means one with timeouts. Its CheckRedirect
	// is not used, because the key must not follow a redirect to another host.
	HTTPClient *http.Client
	// UserAgent names the calling program.
	UserAgent string
}

// A Client makes calls to one server. It may be used by several goroutines.
type Client struct {
	server string
	key    string
	agent  string
	// api does not follow redirects. files does, and is never given the key.
	api, files *http.Client
}

// New returns a client. An invalid address is reported by the first call.
func New(o Options) *Client {
	base := o.HTTPClient
	if base == nil {
		base = &http.Client{}
		// A program that has replaced the default transport keeps its own.
		if transport, ok := http.DefaultTransport.(*http.Transport); ok {
			transport = transport.Clone()
			transport.ResponseHeaderTimeout = time.Minute
			base.Transport = transport
		}
	}
	api, files := *base, *base
	api.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	files.CheckRedirect = nil
	return &Client{
		server: strings.TrimRight(o.Server, "/"), key: o.APIKey, agent: o.UserAgent,
		api: &api, files: &files,
	}
}

// Ready checks that the server is ready: its database, schema and storage
// respond. Otherwise the error is an *Error with the status 503, which is not
// retried: a health check wants the state right now. It needs no key.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/readyz"}, nil)
	return err
}

// List reads a list that the API has in pages to its end, 100 items at a time unless the
// query says otherwise. field names it in the answer, e.g. "skills" in
// {"skills": [...], "pagination": {"total": 120}}. The query may be nil.
func List[T any](ctx context.Context, c *Client, path, field string, query url.Values) ([]T, error) {
	all, query := []T{}, maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	if !query.Has("per_page") {
		query.Set("per_page", "100")
	}
	for page := 1; ; page++ {
		query.Set("page", strconv.Itoa(page))
		var answer map[string]json.RawMessage
		if err := c.get(ctx, path, query, &answer); err != nil {
			return nil, err
		}
		var items []T
		var pagination struct {
			Total int `json:"total"`
		}
		if err := json.Unmarshal(answer[field], &items); err != nil {
			return nil, fmt.Errorf("%s: the field %s of the answer is not valid: %w", path, field, err)
		}
		if err := json.Unmarshal(answer["pagination"], &pagination); err != nil {
			return nil, fmt.Errorf("%s: the pagination of the answer is not valid: %w", path, err)
		}
		all = append(all, items...)
		// An empty page ends the list, too: it may have become shorter meanwhile.
		if len(items) == 0 || len(all) >= pagination.Total {
			return all, nil
		}
	}
}

// newQuery returns the query parameters that are not empty.
func newQuery(params map[string]string) url.Values {
	query := url.Values{}
	for name, value := range params {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

const (
	maxTries  = 4
	firstWait = 300 * time.Millisecond
	// maxRetryAfter is the longest Retry-After that is obeyed; a longer wait is the
	// caller's decision.
	maxRetryAfter = time.Minute
)

// permanent marks an error that a retry would not fix.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// retry calls try until it succeeds, a retry would be pointless or unsafe, or ctx
// ends.
func retry(ctx context.Context, idempotent bool, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		// Double with each try. The jitter keeps clients that failed together from retrying
		// together.
		wait := firstWait << n
		wait = wait/2 + rand.N(wait/2)
		if e, ok := errors.AsType[*Error](err); ok {
			wait = max(wait, e.RetryAfter)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return err
		}
		if n == maxTries-1 || ctx.Err() != nil || !retryable(err, idempotent) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// retryable reports whether another try may help and does no harm.
func retryable(err error, idempotent bool) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Status {
		case http.StatusTooManyRequests: // the request had no effect
			return e.RetryAfter <= maxRetryAfter
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return idempotent && e.RetryAfter <= maxRetryAfter
		}
		return false
	}
	if isPermanent(err) {
		return false
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true // the request was not sent
	}
	return idempotent
}

func isPermanent(err error) bool {
	if _, ok := errors.AsType[permanent](err); ok || errors.Is(err, ErrHash) {
		return true
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return true
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted
}
