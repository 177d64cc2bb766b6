package servertest

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// A Balancer is a round-robin load balancer without sticky sessions. A request
// that is safe to repeat is sent to another process when one refuses the
// connection; nothing else is retried.
type Balancer struct {
	*httptest.Server
	transport *http.Transport

	mu       sync.Mutex
	backends []*url.URL
	next     int
	open     map[string]*sync.WaitGroup // requests to a host that were not answered in full
}

// NewBalancer starts a load balancer without processes.
func NewBalancer() *Balancer {
	b := &Balancer{transport: &http.Transport{MaxIdleConnsPerHost: 32}, open: map[string]*sync.WaitGroup{}}
	b.Server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetXForwarded() },
		Transport:     b,
		FlushInterval: -1, // streams of events
		ErrorLog:      log.New(io.Discard, "", 0),
	})
	return b
}

// Add adds a server.
func (b *Balancer) Add(s *Server) {
	u, err := url.Parse(s.URL)
	if err != nil {
		panic(err) // the ready line has a URL
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = append(b.backends, u)
	b.open[u.Host] = &sync.WaitGroup{}
}

// Remove removes a server.
func (b *Balancer) Remove(s *Server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = slices.DeleteFunc(b.backends, func(u *url.URL) bool { return u.String() == s.URL })
}

// Drain removes a server and returns when all requests to it have been answered.
func (b *Balancer) Drain(s *Server) {
	b.Remove(s)
	b.mu.Lock()
	open := b.open[strings.TrimPrefix(s.URL, "http://")]
	b.mu.Unlock()
	open.Wait()
}

// turns are the backends for one request, in round-robin order.
func (b *Balancer) turns() []*url.URL {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.backends) == 0 {
		return nil
	}
	b.next = (b.next + 1) % len(b.backends)
	return append(slices.Clone(b.backends[b.next:]), b.backends[:b.next]...)
}

// begin counts a request to a backend, unless the backend has been removed
// since turns.
func (b *Balancer) begin(backend *url.URL) (done func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.backends, backend) {
		return nil, false
	}
	open := b.open[backend.Host]
	open.Add(1)
	return sync.OnceFunc(open.Done), true
}

var errNoBackend = errors.New("no process to send the request to")

// RoundTrip implements http.RoundTripper.
func (b *Balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	err := errNoBackend
	for _, backend := range b.turns() {
		done, ok := b.begin(backend)
		if !ok {
			continue
		}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host = backend.Scheme, backend.Host
		var resp *http.Response
		if resp, err = b.transport.RoundTrip(out); err == nil {
			resp.Body = &countedBody{resp.Body, done}
			return resp, nil
		}
		done()
		again := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !again || !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return nil, err
}

// A countedBody is done when it is closed.
type countedBody struct {
	io.ReadCloser
	done func()
}

func (c *countedBody) Close() error {
	defer c.done()
	return c.ReadCloser.Close()
}

// Close stops the balancer.
func (b *Balancer) Close() {
	b.CloseClientConnections()
	b.Server.Close()
	b.transport.CloseIdleConnections()
}
