package outbound_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// TestHTTP checks that a library's client is held to the same promises.
func TestHTTP(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /small", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "small") })
	mux.HandleFunc("GET /large", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1000)) })
	mux.Handle("GET /moved", http.RedirectHandler("/small", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	get := func(t *testing.T, o outbound.Options, path string) (string, error) {
		t.Helper()
		o.MaxBody = 100
		c, err := outbound.New(o)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.HTTP().Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		return string(raw), err
	}
	open := outbound.Options{AllowPrivate: true, MaxRedirects: 1}

	t.Run("answers", func(t *testing.T) {
		if got, err := get(t, open, "/small"); err != nil || got != "small" {
			t.Errorf("got %q, %v, want small", got, err)
		}
		if got, err := get(t, open, "/moved"); err != nil || got != "small" {
			t.Errorf("a redirect: got %q, %v, want small", got, err)
		}
	})
	t.Run("refuses private addresses", func(t *testing.T) {
		if _, err := get(t, outbound.Options{}, "/small"); !outbound.IsRefused(err) {
			t.Errorf("got %v, want a refusal", err)
		}
	})
	t.Run("bounds answers", func(t *testing.T) {
		if _, err := get(t, open, "/large"); !fault.Is(err, fault.TooLarge) {
			t.Errorf("got %v, want TooLarge", err)
		}
	})
	t.Run("names no path", func(t *testing.T) {
		server.Close()
		_, err := get(t, open, "/secret")
		shown, ok := errors.AsType[*fault.Error](err)
		if !ok || shown.Kind != fault.BadGateway || strings.Contains(shown.Error(), "secret") {
			t.Errorf("got %v, want a BadGateway fault without the path", err)
		}
	})
}
