package app_test

import (
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app"
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
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.url+"/api/v1/me", nil)
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+s.FirstKey)
			for b.Loop() {
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
}
