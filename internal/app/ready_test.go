package app_test

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func TestReady(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		s := start(t, settings(t, flags...))
		s.wantReady(t, http.StatusOK, `{"status":"ready","checks":{"database":"ok","migrations":"ok","blob":"ok"}}`)
	})
}

func TestNotReadyWithoutBlobs(t *testing.T) {
	c := settings(t)
	s := start(t, c)
	if err := os.RemoveAll(filepath.Join(c.Data, "blobs")); err != nil {
		t.Fatal(err)
	}
	s.wantReady(t, http.StatusServiceUnavailable, `{"status":"not ready","checks":{"database":"ok","migrations":"ok","blob":"failed"}}`)
	s.wantStatus(t, "", http.StatusOK, "/healthz")
	if !strings.Contains(s.log.String(), "check=blob") {
		t.Errorf("the log does not say why:\n%s", s.log)
	}
}

func TestNotReadyWithoutDatabase(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		c := settings(t)
		s := start(t, c)
		replaceByFolder(t, filepath.Join(c.Data, "whetstone.db"))
		// Open connections go on, but into nothing.
		s.wantReady(t, http.StatusServiceUnavailable, `{"status":"not ready","checks":{"database":"failed","migrations":"failed","blob":"ok"}}`)
	})
	t.Run("postgres", func(t *testing.T) {
		raw := storetest.URL(t, "postgres")
		s := start(t, settings(t, "--database-url", raw, "--roles", "web"))
		closeDatabase(t, raw)
		s.wantReady(t, http.StatusServiceUnavailable, `{"status":"not ready","checks":{"database":"failed","migrations":"failed","blob":"ok"}}`)
		status, body := s.get(t, "/api/v1/me", s.FirstKey)
		if status != http.StatusServiceUnavailable || !strings.Contains(body, `"The database is not available now; try again`) {
			t.Errorf("GET /api/v1/me: %d %s, want 503 that says what to do", status, body)
		}
	})
}

func TestNotReadyWithOldSchema(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		s := start(t, settings(t, flags...))
		db, err := store.Open(t.Context(), store.Options{URL: flags[1], MaxConns: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(t.Context(), `DELETE FROM goose_db_version WHERE version_id = (SELECT MAX(version_id) FROM goose_db_version)`); err != nil {
			t.Fatal(err)
		}
		s.wantReady(t, http.StatusServiceUnavailable, `{"status":"not ready","checks":{"database":"ok","migrations":"failed","blob":"ok"}}`)
	})
}

// TestNewerSchema lets a newer binary upgrade the data under a running service.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		oldest int64
		status int
	}{
		{"compatible", store.Newest(), http.StatusOK},
		{"incompatible", store.Newest() + 1, http.StatusServiceUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, storetest.URL, func(t *testing.T, flags []string) {
				s := start(t, settings(t, flags...))
				db, err := store.Open(t.Context(), store.Options{URL: flags[1], MaxConns: 2})
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				storetest.Upgrade(t, db, store.Newest()+9, c.oldest)
				s.wantStatus(t, "", c.status, "/readyz")
				migrations := finding(examine(t, settings(t, flags...)), "migrations")
				if c.status == http.StatusOK {
					if err := s.stop(); err != nil {
						t.Fatal(err)
					}
					start(t, settings(t, flags...))
					if migrations.Status != invariants.Advice {
						t.Errorf("the doctor says %+v", migrations)
					}
					return
				}
				for !strings.Contains(s.log.String(), "jobs are stopped") {
					select {
					case <-t.Context().Done():
						t.Fatal("jobs are run on")
					case <-time.After(50 * time.Millisecond):
					}
				}
				if err := s.stop(); err != nil {
					t.Fatal(err)
				}
				if _, err := app.New(t.Context(), options(settings(t, flags...), io.Discard)); !fault.Is(err, fault.Conflict) {
					t.Errorf("the next start: %v, want a Conflict", err)
				}
				if migrations.Status != invariants.Broken {
					t.Errorf("the doctor says %+v", migrations)
				}
			})
		})
	}
}

// wantReady compares the whole answer: it names the checks and nothing else.
func (s *service) wantReady(t *testing.T, status int, want string) {
	t.Helper()
	got, body := s.get(t, "/readyz", "")
	if got != status {
		t.Errorf("status %d, want %d", got, status)
	}
	if diff := cmp.Diff(parse(t, want), parse(t, body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func replaceByFolder(t *testing.T, path string) {
	t.Helper()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// closeDatabase ends all connections to a PostgreSQL database and lets no new
// ones in.
func closeDatabase(t *testing.T, raw string) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	db, err := store.Open(t.Context(), store.Options{URL: u.String(), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(t.Context(), `ALTER DATABASE `+name+` WITH ALLOW_CONNECTIONS false`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name); err != nil {
		t.Fatal(err)
	}
}
