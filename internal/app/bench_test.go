package app_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// BenchmarkTraces has the cost of a request without traces, with the id of a trace
// only, and with all recorded.
func BenchmarkTraces(b *testing.B) {
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"off", nil},
		{"1%", []string{"--trace-ratio", "0.01"}},
		{"all", []string{"--trace-ratio", "1"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			flags := c.flags
			if flags != nil {
				flags = append(flags, "--trace-otlp-endpoint", newCollector(b).URL)
			}
			s := start(b, settings(b, flags...), func(o *app.Options) { o.Log = slog.New(slog.DiscardHandler) })
			s.benchmark(b, "/api/v1/me")
		})
	}
}

// BenchmarkReplica has the cost of a list that is read from the primary, and from an
// idle replica: what it takes to know that it is up to date.
func BenchmarkReplica(b *testing.B) {
	primary := storetest.StartPostgres(b)
	replica, err := primary.NewReplica()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = replica.Close() })
	flags := []string{"--database-url", primary.URL, "--secret-key", sealtest.Key(0), "--bootstrap-key", "st_live_" + strings.Repeat("0", 43)}
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"primary", nil},
		{"replica", []string{"--database-read-url", replica.URL}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := start(b, settings(b, append(c.flags, flags...)...), func(o *app.Options) { o.Log = slog.New(slog.DiscardHandler) })
			s.FirstKey = flags[len(flags)-1]
			s.benchmark(b, "/api/v1/keys")
		})
	}
}

// benchmark gets a path, from several goroutines with -cpu.
func (s *service) benchmark(b *testing.B, path string) {
	b.Helper()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.url+path, nil)
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+s.FirstKey)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				b.Errorf("GET %s: %s", path, resp.Status)
				return
			}
		}
	})
}
