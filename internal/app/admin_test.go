package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// adminGet asks the admin address.
func (s *service) adminGet(t *testing.T, path, host, accept string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.AdminURL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// TestAdminAddress has the metrics and the profiles, and only there.
func TestAdminAddress(t *testing.T) {
	t.Parallel()
	for _, roles := range []string{"web,worker", "worker"} {
		s := start(t, settings(t, "--admin-addr", "127.0.0.1:0", "--roles", roles))
		if _, _, page := s.adminGet(t, "/metrics", "", ""); !strings.Contains(page, "go_goroutines") {
			t.Error("no metrics at the admin address")
		}
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/heap"} {
			if status, _, body := s.adminGet(t, path, "", ""); status != http.StatusOK || body == "" {
				t.Errorf("%s at the admin address: %d", path, status)
			}
		}
		for _, path := range []string{"/debug/pprof/cmdline", "/api/v1/me", "/", "/healthz"} {
			if status, _, _ := s.adminGet(t, path, "", ""); status != http.StatusNotFound {
				t.Errorf("%s at the admin address: %d, want 404", path, status)
			}
		}
		for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap"} {
			if status, _ := s.get(t, path, ""); status != http.StatusNotFound {
				t.Errorf("%s at the public address: %d, want 404", path, status)
			}
		}
		if status, _, _ := s.adminGet(t, "/metrics", "evil.example:80", ""); status != http.StatusForbidden {
			t.Errorf("by a foreign name of the loopback address: %d, want 403", status)
		}
		if status, _, _ := s.adminGet(t, "/metrics", "localhost:80", ""); status != http.StatusOK {
			t.Errorf("by the name localhost: %d, want 200", status)
		}
	}
}

// TestNoProfiles checks that pprof is not served without --admin-addr.
func TestNoProfiles(t *testing.T) {
	t.Parallel()
	s := start(t, settings(t))
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1"} {
		if status, _ := s.get(t, path, s.FirstKey); status != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, status)
		}
	}
}

// TestOpenMetrics checks content negotiation: OpenMetrics if the Accept header has it.
func TestOpenMetrics(t *testing.T) {
	t.Parallel()
	s := start(t, settings(t, "--admin-addr", "127.0.0.1:0"))
	_, header, page := s.adminGet(t, "/metrics", "", "application/openmetrics-text; version=1.0.0")
	if !strings.HasPrefix(header.Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(page, "# EOF\n") {
		t.Errorf("%s, ending in %q", header.Get("Content-Type"), page[max(0, len(page)-20):])
	}
}
