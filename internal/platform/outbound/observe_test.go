package outbound_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// TestTraceparent leaves only to servers that the operator has named: to others it
// would tell which of their requests belong together.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Traceparent"))
	}))
	defer server.Close()
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct {
		hosts []string
		sent  bool
	}{{nil, false}, {[]string{"other.example"}, false}, {[]string{host}, true}} {
		got = nil
		ctx, root := trace.New(trace.Sampler{Ratio: 1}, c.hosts).Root(t.Context(), "job", trace.Internal)
		for _, do := range []func() (*http.Response, error){
			func() (*http.Response, error) { return client.Get(ctx, server.URL) },
			func() (*http.Response, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
				if err != nil {
					return nil, err
				}
				return client.HTTP().Do(req)
			},
		} {
			resp, err := do()
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		for _, header := range got {
			if sent := strings.Contains(header, root.TraceID()); sent != c.sent || !sent && header != "" {
				t.Errorf("to %v: traceparent %q", c.hosts, header)
			}
		}
	}
}

// TestPeer counts answers by the class of their status.
func TestPeer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	registry := prometheus.NewRegistry()
	client, err := outbound.New(outbound.Options{AllowPrivate: true, Peer: metrics.NewOutbound(registry).To("webhook")})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/", "/bad"} {
		resp, err := client.Get(t.Context(), server.URL+path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	server.Close()
	if _, err := client.Get(t.Context(), server.URL); err == nil {
		t.Fatal("a closed server answers")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			counts[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"whetstone_outbound_requests_total webhook 2xx":       2,
		"whetstone_outbound_requests_total webhook 5xx":       1,
		"whetstone_outbound_requests_total webhook failed":    1,
		"whetstone_outbound_request_duration_seconds webhook": 4,
	} {
		if counts[name] != want {
			t.Errorf("%s is %v, want %v", name, counts[name], want)
		}
	}
}
