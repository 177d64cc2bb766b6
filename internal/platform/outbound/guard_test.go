package outbound_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// TestMain names a proxy that does not exist, in the environment and before
// net/http remembers it: a client that heeds it fails on every host name.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "",
	} {
		if err := os.Setenv(name, value); err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(m.Run())
}

// errStopped is what the guard answers for an address that was not refused
// and is not loopback.
var errStopped = errors.New("stopped by the test")

// guard records the addresses that the client did not refuse, and lets only
// loopback ones be connected to: no test sends anything further.
type guard struct {
	mu      sync.Mutex
	reached []string
}

func (g *guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reached = append(g.reached, address)
	if !netip.MustParseAddrPort(address).Addr().Unmap().IsLoopback() {
		return errStopped
	}
	return nil
}

// answers is a resolver that gives each name its answers one after the other,
// the last one for ever.
type answers map[string][][]string

func (a answers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	queue := a[host]
	if len(queue) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(queue) > 1 {
		a[host] = queue[1:]
	}
	var addrs []netip.Addr
	for _, s := range queue[0] {
		addrs = append(addrs, netip.MustParseAddr(s))
	}
	return addrs, nil
}

// portOf returns the port that a server listens on.
func portOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// newClient returns a guarded client that asks no real resolver.
func newClient(t *testing.T, o outbound.Options) (*outbound.Client, *guard) {
	t.Helper()
	g := &guard{}
	o.Control = g.control
	if o.Resolver == nil {
		o.Resolver = answers{}
	}
	c, err := outbound.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c, g
}

// serve starts a server on loopback.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// serveTLS starts a server on loopback, and returns the pool that trusts it.
func serveTLS(t *testing.T, config *tls.Config, h http.HandlerFunc) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.TLS = config
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s, pool
}

// fetch gets a URL and reads the whole body.
func fetch(ctx context.Context, c *outbound.Client, rawURL string) (string, error) {
	resp, err := c.Get(ctx, rawURL)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return string(got), err
}
