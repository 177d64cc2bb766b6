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
	"net/http"
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
