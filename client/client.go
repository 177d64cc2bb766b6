// Package client talks to a Whetstone server: it publishes skills to the
// registry, finds and downloads them, and tells the server what is installed
// where.
//
// A call waits and tries again when the server cannot be reached, is not
// ready or asks for patience, for as long as its context allows and a few
// times at most. Calls that change something each time they are made
// (CreateEntry, Rollback, StartDeviceLogin) are made again only if the first
// try cannot have had an effect. An error that the server answered is an
// *Error.
package client

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// Options say which server to talk to, and as whom.
type Options struct {
	// Server is the address of the server, like https://whetstone.example.
	Server string
	// APIKey is sent to the server, and nowhere else. It may be empty for the
	// login.
	APIKey string
	// HTTPClient makes the requests; nil stands for one with timeouts. Its
	// CheckRedirect is not used: the key must not follow a redirect.
	HTTPClient *http.Client
	// UserAgent names the program that calls.
	UserAgent string
}

// A Client makes calls to one server. Several goroutines may use it.
type Client struct {
	server string
	key    string
	agent  string
	// api follows no redirects, files does: it never has the key.
	api, files *http.Client
}

// New returns a client. An address that is none shows with the first call.
func New(o Options) *Client {
	base := o.HTTPClient
	if base == nil {
		base = defaultHTTPClient()
	}
	api, files := *base, *base
	api.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	files.CheckRedirect = nil
	return &Client{
		server: strings.TrimRight(o.Server, "/"), key: o.APIKey, agent: o.UserAgent,
		api: &api, files: &files,
	}
}

func defaultHTTPClient() *http.Client {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // somebody has put another one there, and means it
		return &http.Client{}
	}
	transport = transport.Clone()
	transport.ResponseHeaderTimeout = time.Minute
	return &http.Client{Transport: transport}
}

// Ready asks whether the server can work: its database, schema and storage
// answer. One that cannot is an *Error with the status 503. It needs no key.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/readyz"}, nil)
	return err
}
