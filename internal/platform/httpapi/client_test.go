package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

type fromOutput struct {
	From string `json:"from"`
}

func from(ctx context.Context, _ struct{}) (fromOutput, error) {
	return fromOutput{httpapi.ClientAddr(ctx).String()}, nil
}

// behind is an API that trusts proxies in 10.0.0.0/8 and fd00::/8. It tells
// clients where they are, thrice a minute each.
func behind() *httpapi.API {
	a := httpapi.New(httpapi.Options{
		Auth: callers, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Version: "test",
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
	})
	limit := &httpapi.Limit{Requests: 3, Per: time.Minute, By: httpapi.ByAddress, Local: true}
	httpapi.Add(a, from, httpapi.Route{Method: "GET", Path: "/from", Public: true, Limit: httpapi.PublicLimit()})
	httpapi.Add(a, from, httpapi.Route{Method: "GET", Path: "/thrice", Public: true, Limit: limit})
	a.Handle("GET /plain", limit, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return a
}

// ask sends a request from a peer that says on whose behalf it asks.
func ask(a *httpapi.API, path, peer string, forwarded ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.RemoteAddr = peer
	req.Header["X-Forwarded-For"] = forwarded
	rec := httptest.NewRecorder()
	a.ServeHTTP(rec, req)
	return rec
}

// TestClientAddr: a client is the last hop that no trusted proxy is. Whatever
// it says of itself is not believed.
func TestClientAddr(t *testing.T) {
	a := behind()
	long := strings.Repeat("10.0.0.9, ", 50) + "10.0.0.2"
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "203.0.113.1:1234", nil, "203.0.113.1"},
		{"claims to be a proxy", "203.0.113.1:1234", []string{"198.51.100.1"}, "203.0.113.1"},
		{"behind a proxy", "10.0.0.1:1234", []string{"203.0.113.1"}, "203.0.113.1"},
		{"claims another address", "10.0.0.1:1234", []string{"198.51.100.1, 203.0.113.1"}, "203.0.113.1"},
		{"claims a proxy's address", "10.0.0.1:1234", []string{"10.0.0.7, 203.0.113.1"}, "203.0.113.1"},
		{"behind two proxies", "10.0.0.1:1234", []string{"198.51.100.1,203.0.113.1 , 10.0.0.2"}, "203.0.113.1"},
		{"in two lines", "10.0.0.1:1234", []string{"198.51.100.1, 203.0.113.1", "10.0.0.2"}, "203.0.113.1"},
		{"a proxy itself", "10.0.0.1:1234", nil, "10.0.0.1"},
		{"only proxies", "10.0.0.1:1234", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"garbage", "10.0.0.1:1234", []string{"203.0.113.1, unknown"}, "10.0.0.1"},
		{"garbage before it", "10.0.0.1:1234", []string{"<script>, 203.0.113.1"}, "203.0.113.1"},
		{"nothing", "10.0.0.1:1234", []string{""}, "10.0.0.1"},
		{"too many", "10.0.0.1:1234", []string{long}, "10.0.0.9"},
		{"with a port", "10.0.0.1:1234", []string{"203.0.113.1:80"}, "203.0.113.1"},
		{"IPv6", "[fd00::1]:1234", []string{"2001:db8::7"}, "2001:db8::7"},
		{"IPv6 with a port", "[fd00::1]:1234", []string{"[2001:db8::7]:80"}, "2001:db8::7"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:1234", []string{"::ffff:203.0.113.1"}, "203.0.113.1"},
		{"no address at all", "pipe", []string{"203.0.113.1"}, "invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := ask(a, "/from", c.peer, c.forwarded...)
			if want := fmt.Sprintf("{\"from\":%q}\n", c.want); rec.Body.String() != want {
				t.Errorf("%s, want %s", rec.Body, want)
			}
		})
	}
}

// TestLocalLimit: each address has a bucket on each route, which fills again.
func TestLocalLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := behind()
		want := func(path, peer string, status int, remaining, retry string) {
			t.Helper()
			rec := ask(a, path, peer)
			got := []string{rec.Header().Get("RateLimit-Remaining"), rec.Header().Get("Retry-After")}
			if rec.Code != status || got[0] != remaining || got[1] != retry {
				t.Errorf("%s by %s: %d %q, want %d %q", path, peer, rec.Code, got, status, []string{remaining, retry})
			}
		}
		const one, other = "203.0.113.1:1", "203.0.113.2:1"
		want("/thrice", one, 200, "2", "")
		want("/thrice", one, 200, "1", "")
		want("/thrice", one, 200, "0", "")
		want("/thrice", one, 429, "0", "20")
		want("/thrice", other, 200, "2", "")
		want("/plain", one, 200, "2", "")
		time.Sleep(20 * time.Second)
		want("/thrice", one, 200, "0", "")
		want("/thrice", one, 429, "0", "20")
		time.Sleep(time.Hour)
		want("/thrice", one, 200, "2", "")

		// Whoever has one IPv6 address has its network.
		for i := range 3 {
			want("/thrice", fmt.Sprintf("[2001:db8::%d]:1", i), 200, fmt.Sprint(2-i), "")
		}
		want("/thrice", "[2001:db8::ffff:1]:1", 429, "0", "20")
		want("/thrice", "[2001:db8:0:1::1]:1", 200, "2", "")

		// This machine is not limited.
		for range 10 {
			want("/thrice", "127.0.0.1:1", 200, "3", "")
			want("/plain", "[::1]:1", 200, "3", "")
		}
	})
}

// TestMissingRoutesAreLimited: also what is not there takes time.
func TestMissingRoutesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := behind()
		for i := range 6001 {
			want := http.StatusNotFound
			if i == 6000 {
				want = http.StatusTooManyRequests
			}
			if rec := ask(a, fmt.Sprintf("/none/%d", i), "203.0.113.1:1"); rec.Code != want {
				t.Fatalf("request %d: %d, want %d", i, rec.Code, want)
			}
		}
	})
}
