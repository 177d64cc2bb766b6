// Package outbound makes HTTP requests to addresses that users enter: alert
// targets, archives, models. It prevents SSRF (server-side request forgery):
// a dial hook refuses private, loopback, link-local and other special-purpose
// addresses unless the operator allows them, whatever name or redirect leads
// there, so DNS rebinding does not help. It also limits the time and the size of
// a response, and keeps URLs out of errors, since a webhook's path is a secret.
// It owns no tables.
package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
)

// The defaults of Options, and limits that no caller needs to change.
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

// Options configure what a client may reach, and its limits. The zero value
// reaches public addresses only.
type Options struct {
	// AllowPrivate allows every address that can be in a private network:
	// private, loopback, link-local and the like. Multicast, unspecified,
	// reserved and documentation addresses stay refused.
	AllowPrivate bool
	// AllowList allows the same for the host names, addresses and CIDRs in it,
	// e.g. "hooks.corp.example" or "10.1.0.0/16". A host name does not include
	// its subdomains.
	AllowList []string

	// Timeout limits a request from the DNS lookup to the last byte of the
	// body; 0 means 15 seconds.
	Timeout time.Duration
	// HeaderTimeout limits the wait for the response header once the request
	// is sent; 0 means 15 seconds. It matters where Timeout is long.
	HeaderTimeout time.Duration
	// MaxBody is the largest response that can be read, counted after
	// decompression; 0 means 1 MiB.
	MaxBody int64
	// MaxRedirects is how many redirects are followed. With 0 none is, and a
	// 3xx response is returned like any other.
	MaxRedirects int

	// Peer, if not nil, counts the requests and how long they take.
	Peer *metrics.Peer

	// RootCAs are trusted instead of the system's, if not nil.
	RootCAs *x509.CertPool
	// Resolver is used instead of the system's, if not nil.
	Resolver Resolver
	// Control, if not nil, is called like net.Dialer.ControlContext with each
	// address that was not refused, before anything is sent to it; an error
	// stops the connection. Tests use it to see what would be reached.
	Control func(ctx context.Context, network, address string, c syscall.RawConn) error
}

// Limits change a client's limits for some of its calls. A zero field keeps
// what the client has; a negative MaxRedirects means none.
type Limits struct {
	Timeout      time.Duration
	MaxBody      int64
	MaxRedirects int
}

// A Client makes requests to addresses that users enter. It is safe for
// concurrent use.
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
	// Proxy stays nil: a proxy from the environment would resolve and dial
	// itself, past the SSRF guard.
	transport := &http.Transport{
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
	c := &Client{
		http:   http.Client{Transport: &observed{transport, o.Peer}},
		limits: Limits{Timeout: defaultTimeout, MaxBody: defaultMaxBody},
	}
	return c.With(Limits{Timeout: o.Timeout, MaxBody: o.MaxBody, MaxRedirects: o.MaxRedirects}), nil
}

// With returns a client with other limits that shares its connections with c.
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
			CheckRedirect: checkRedirect(limits.MaxRedirects),
		},
		limits: limits,
	}
}

// Do sends a request and returns the response, whose body the caller closes.
// Any status is a response and not an error.
//
// A URL that ParseURL would not accept, its length aside, is Malformed; an
// address that may not be reached is Denied (see IsRefused). A failed lookup,
// connection or response is BadGateway, with a message that may be shown. The
// caller's own cancellation is context.Canceled. Reading more of the body than
// the limit is TooLarge. No error contains more of a URL than scheme and host.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	if err := checkRequest(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as http.Client does
		}
		return nil, err
	}
	origin := req.URL.Scheme + "://" + req.URL.Host
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, redactError(origin, err)
	}
	resp.Body = &limitedBody{from: resp.Body, origin: origin, left: c.limits.MaxBody, limit: c.limits.MaxBody}
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

// checkRequest validates the URL, and refuses a Host header that differs from
// it: the request would reach another site than the one that was checked.
func checkRequest(req *http.Request) error {
	if req.URL == nil {
		return fault.New(fault.Malformed, "the request has no URL")
	}
	if req.Host != "" && req.Host != req.URL.Host {
		return fault.New(fault.Malformed, "the Host of the request is not the host of its URL")
	}
	return checkURL(req.URL)
}

// HTTP returns an http.Client for libraries that need one, with c's SSRF guard,
// redirect policy and limits. Its transport returns the errors of Do, but
// net/http wraps them in a *url.Error that names the URL: before an error is
// shown, the *fault.Error must be unwrapped.
func (c *Client) HTTP() *http.Client {
	guarded := c.http
	guarded.Transport = &transport{client: c}
	return &guarded
}

// transport applies a Client's checks and limits to each request.
type transport struct{ client *Client }

// RoundTrip checks a request, sends it and limits the size of the response.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := checkRequest(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as every http.RoundTripper must
		}
		return nil, err
	}
	origin := req.URL.Scheme + "://" + req.URL.Host
	resp, err := t.client.http.Transport.RoundTrip(req)
	if err != nil {
		return nil, redactError(origin, err)
	}
	limit := t.client.limits.MaxBody
	resp.Body = &limitedBody{from: resp.Body, origin: origin, left: limit, limit: limit}
	return resp, nil
}

// maxRetryAfter bounds what a server can ask for with Retry-After.
const maxRetryAfter = 24 * time.Hour

// RetryAfter reads the Retry-After header, seconds or an HTTP date, e.g. "30",
// "0.5" or "Fri, 31 Dec 2027 23:59:59 GMT". It reports false when the server
// sent none that can be understood. The wait is at least 0 and at most a day.
func RetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0) { // NaN is not a wait, either
			return 0, seconds == 0
		}
		return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second)), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}
