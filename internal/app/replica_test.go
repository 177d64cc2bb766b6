package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestReplica has two web processes that read pages and lists from a replica. What is
// written at one is read at the other, by clients that know nothing of a replica:
// while it is up to date, stale and killed. No request fails.
func TestReplica(t *testing.T) {
	t.Parallel()
	primary := storetest.StartPostgres(t)
	replica, err := primary.NewReplica()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Close() })
	var both [2]*service
	for i := range both {
		both[i] = start(t, settings(t, "--database-url", primary.URL, "--database-read-url", replica.URL,
			"--secret-key", sealtest.Key(0), "--roles", "web", "--database-conns", "8"))
	}
	key := both[0].FirstKey
	for _, s := range both {
		apptest.Eventually(t, "the replica is used", func() bool {
			s.wantStatus(t, key, http.StatusOK, "/api/v1/keys")
			return s.readsFrom(t, "replica") > 0
		})
	}

	page := signedIn(t, both[1].url, key)
	names := 0
	readBack := func(state string) {
		t.Helper()
		for range 10 {
			names++
			name := fmt.Sprintf("key-%d-of-the-test", names)
			made := both[names%2].as(t, key).Post("/api/v1/keys", map[string]any{"name": name})
			if made.Status != http.StatusCreated {
				t.Fatalf("%s: POST /api/v1/keys: %d %s", state, made.Status, made.Body)
			}
			if status, body := both[1-names%2].get(t, "/api/v1/keys", key); status != http.StatusOK || !strings.Contains(body, name) {
				t.Fatalf("%s: %s was made and is not listed at the other process: %d %s", state, name, status, body)
			}
			if status, body := page("/settings/keys"); status != http.StatusOK || !strings.Contains(body, name) {
				t.Fatalf("%s: %s was made and is not on the page: %d", state, name, status)
			}
		}
	}
	readBack("up to date")
	if f := doctorSays(t, primary.URL, replica.URL); f.Status != invariants.Good {
		t.Errorf("the doctor says of a replica that is up to date: %+v", f)
	}
	direct, err := store.Open(t.Context(), store.Options{URL: replica.URL, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if _, err := direct.Exec(t.Context(), `SELECT pg_wal_replay_pause()`); err != nil {
		t.Fatal(err)
	}
	readBack("stale")
	if !strings.Contains(both[0].log.String()+both[1].log.String(), "it is more than 500ms behind") {
		t.Error("the log does not tell of the stale replica")
	}
	if _, err := direct.Exec(t.Context(), `SELECT pg_wal_replay_resume()`); err != nil {
		t.Fatal(err)
	}
	before := both[1].readsFrom(t, "replica")
	apptest.Eventually(t, "the replica is used again", func() bool {
		both[1].wantStatus(t, key, http.StatusOK, "/api/v1/keys")
		return both[1].readsFrom(t, "replica") > before
	})

	reading, stop := context.WithCancel(t.Context())
	var readers errgroup.Group
	for range 4 {
		readers.Go(func() error {
			for reading.Err() == nil {
				if status, body := both[1].get(t, "/api/v1/keys", key); status != http.StatusOK {
					return fmt.Errorf("GET /api/v1/keys: %d %s", status, body)
				}
			}
			return nil
		})
	}
	if err := replica.Kill(); err != nil {
		t.Fatal(err)
	}
	readBack("killed")
	stop()
	if f := doctorSays(t, primary.URL, replica.URL); f.Status != invariants.Advice || !strings.Contains(f.Message, "database-read-url") {
		t.Errorf("the doctor says of a replica that is gone: %+v", f)
	}
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}
	if status, body := both[0].get(t, "/readyz", ""); status != http.StatusOK {
		t.Errorf("without the replica the process is not ready: %s", body)
	}
}

// readsFrom is how many requests read from the replica, or from the primary.
func (s *service) readsFrom(t *testing.T, from string) (n float64) {
	t.Helper()
	_, metrics := s.get(t, "/metrics", "")
	for line := range strings.Lines(metrics) {
		if _, err := fmt.Sscanf(line, `whetstone_database_replica_reads_total{from="`+from+`"} %g`, &n); err == nil {
			return n
		}
	}
	t.Fatalf("the metrics have no reads:\n%s", metrics)
	return 0
}

// doctorSays returns what the doctor finds about the replica.
func doctorSays(t *testing.T, primary, replica string) invariants.Finding {
	t.Helper()
	c := settings(t, "--database-url", primary, "--database-read-url", replica, "--secret-key", sealtest.Key(0))
	d := app.NewDoctor(c)
	d.Quick = true
	for _, f := range d.Examine(t.Context()) {
		if f.Check == "replica" {
			return f
		}
	}
	t.Fatal("the doctor does not look at the replica")
	return invariants.Finding{}
}

// signedIn signs in to the pages, and returns a function that gets one.
func signedIn(t *testing.T, base, key string) func(path string) (int, string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	do := func(method, path string, body io.Reader) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(page)
	}
	if status, body := do(http.MethodPost, "/login", strings.NewReader(url.Values{"api_key": {key}}.Encode())); status != http.StatusOK {
		t.Fatalf("sign in: %d %s", status, body)
	}
	return func(path string) (int, string) { return do(http.MethodGet, path, nil) }
}
