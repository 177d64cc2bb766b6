// Package outbound makes HTTP requests to addresses that users give: alert
// targets, archives, models. It keeps such an address from reaching the
// network the service itself stands in, from filling its memory, from holding
// it for ever, and from showing up in an error: a webhook's path is a secret.
// It owns no tables.
package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// The defaults and the bounds that no caller needs to change.
const (
	defaultTimeout   = 15 * time.Second
	defaultMaxBody   = 1 << 20
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	idleTimeout      = 30 * time.Second
	maxHeaderBytes   = 64 << 10
)

// A Resolver finds the addresses of a host name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options say what a client may reach and how much it may take. The zero
// value reaches public addresses only.
type Options struct {
	// AllowPrivate opens every address that can be a network of one's own:
	// private, loopback, link-local and the like. What nobody can listen on
	// (multicast, unspecified, reserved, documentation) stays refused.
	AllowPrivate bool
	// AllowList opens the same for the host names, addresses and CIDRs in it.
	// A host name stands for itself only, not for the names below it.
	AllowList []string

	// Timeout bounds a request from the look-up to the last byte of the body;
	// 0 means 15 seconds.
	Timeout time.Duration
	// HeaderTimeout bounds the wait for the answer's header once the request
	// is sent; 0 means 15 seconds. It matters where Timeout is long.
	HeaderTimeout time.Duration
	// MaxBody is the largest answer that can be read, counted after
	// decompression; 0 means 1 MiB.
	MaxBody int64
	// MaxRedirects is how many redirects are followed. With 0 none is, and an
	// answer that redirects is returned like any other.
	MaxRedirects int

	// RootCAs are trusted instead of the system's, if not nil.
	RootCAs *x509.CertPool
	// Resolver is used instead of the system's, if not nil.
	Resolver Resolver
	// Control, if not nil, is called like net.Dialer.ControlContext with each
	// address that was not refused, before anything is sent to it; an error
	// stops the connection. It lets a test see what would be reached.
	Control func(ctx context.Context, network, address string, c syscall.RawConn) error
}

// Limits change a client's limits for some of its calls. A zero field keeps
// what the client has; a negative MaxRedirects means none.
type Limits struct {
	Timeout      time.Duration
	MaxBody      int64
	MaxRedirects int
}

// A Client makes requests to foreign addresses. It is safe for use by several
// goroutines at once.
type Client struct {
	http   http.Client
	limits Limits
}

// New returns a client. Its error is Malformed and names the entry of the
// allow list that is not a host name, an address or a CIDR.
func New(o Options) (*Client, error) {
	d, err := newDialer(o)
	if err != nil {
		return nil, err
	}
	c := &Client{
		http:   http.Client{Transport: newTransport(d, o)},
		limits: Limits{Timeout: defaultTimeout, MaxBody: defaultMaxBody},
	}
	return c.With(Limits{Timeout: o.Timeout, MaxBody: o.MaxBody, MaxRedirects: o.MaxRedirects}), nil
}

// newTransport sets no Proxy: a proxy from the environment would do the
// look-up and the dial itself, behind the back of the check.
func newTransport(d *dialer, o Options) *http.Transport {
	return &http.Transport{
		DialContext:            d.dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:    handshakeTimeout,
		ResponseHeaderTimeout:  cmp.Or(o.HeaderTimeout, defaultTimeout),
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        idleTimeout,
		ForceAttemptHTTP2:      true,
	}
}

// With returns a client with other limits that shares its connections with c,
// which stays as it is.
func (c *Client) With(l Limits) *Client {
	limits := c.limits
	if l.Timeout > 0 {
		limits.Timeout = l.Timeout
	}
	if l.MaxBody > 0 {
		limits.MaxBody = l.MaxBody
	}
	if l.MaxRedirects != 0 {
		limits.MaxRedirects = max(l.MaxRedirects, 0)
	}
	return &Client{
		http: http.Client{
			Transport:     c.http.Transport,
			Timeout:       limits.Timeout,
			CheckRedirect: redirects(limits.MaxRedirects),
		},
		limits: limits,
	}
}

// Do sends a request and returns the answer, whose body the caller closes.
// Any status is an answer and not an error.
//
// A URL that ParseURL would not take, its length aside, is Malformed; an
// address that may not be reached is Denied (see IsRefused); everything that
// goes wrong between here and there is BadGateway, with a message that may be
// shown, except that the caller's own cancellation comes back as
// context.Canceled. Reading more of the body than the limit is TooLarge. No
// error holds more of a URL than its scheme and its host.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	if err := checkRequest(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as http.Client does; the request is lost either way
		}
		return nil, err
	}
	origin := req.URL.Scheme + "://" + req.URL.Host
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, clean(origin, err)
	}
	resp.Body = &body{from: resp.Body, origin: origin, left: c.limits.MaxBody, limit: c.limits.MaxBody}
	return resp, nil
}

// Get fetches a URL; see Do.
func (c *Client) Get(ctx context.Context, rawURL string) (*http.Response, error) {
	u, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	req := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(ctx)
	return c.Do(req)
}

// checkRequest also refuses a Host that is not the URL's: it would reach a
// site other than the one that was checked and shown.
func checkRequest(req *http.Request) error {
	if req.URL == nil {
		return fault.New(fault.Malformed, "the request has no URL")
	}
	if req.Host != "" && req.Host != req.URL.Host {
		return fault.New(fault.Malformed, "the Host of the request is not the host of its URL")
	}
	return checkURL(req.URL)
}
