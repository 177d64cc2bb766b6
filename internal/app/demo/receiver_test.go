package demo_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/demo"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// TestReceiver: its client reaches it by its name, and nothing else on loopback.
func TestReceiver(t *testing.T) {
	t.Parallel()
	r, err := demo.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- r.Run(ctx) }()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	client, err := outbound.New(r.Allow(outbound.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(other.Listener.Addr().String())
	for address, status := range map[string]int{
		r.URL() + "/alerts":                   http.StatusNoContent,
		other.URL:                             0,
		"http://on-call.acme.example:" + port: 0,
		"http://localhost:" + port:            0,
		strings.Replace(r.URL(), "on-call.acme.example", "127.0.0.1", 1): 0,
	} {
		got := 0
		if req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, nil); err != nil {
			t.Fatal(err)
		} else if res, err := client.Do(req); err == nil {
			got = res.StatusCode
			_ = res.Body.Close()
		}
		if got != status {
			t.Errorf("%s answers %d, want %d", address, got, status)
		}
	}
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
