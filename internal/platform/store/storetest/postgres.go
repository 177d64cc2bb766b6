package storetest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/postgrestest"
)

// server is the PostgreSQL server that all tests of this process share.
type server struct {
	base        *url.URL
	admin       *store.DB
	pooler      *postgrestest.Pooler // nil if tests connect to the server itself
	template    sync.Once
	templateErr error
}

// sharedServer is the server that WHETSTONE_TEST_POSTGRES names, else one
// started from the installed binaries, which ends with this process.
var sharedServer = sync.OnceValues(func() (*server, error) {
	raw := os.Getenv("WHETSTONE_TEST_POSTGRES")
	if raw == "" {
		s, err := postgrestest.New(postgrestest.Throwaway()...)
		if err != nil {
			return nil, err
		}
		raw = s.URL
	}
	base, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	admin, err := store.Open(context.Background(), store.Options{URL: raw, MaxConns: 4})
	s := &server{base: base, admin: admin}
	if err == nil && os.Getenv("WHETSTONE_TEST_POOLER") != "" {
		s.pooler, err = postgrestest.NewPooler(raw)
	}
	return s, err
})

func postgres(t testing.TB) *server {
	t.Helper()
	s, err := sharedServer()
	require(t, err)
	return s
}

// require fails the test if a server could not be started, or skips it if none
// is installed, unless WHETSTONE_REQUIRE=all.
func require(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, postgrestest.ErrNotInstalled) && os.Getenv("WHETSTONE_REQUIRE") != "all" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// StartPostgres starts a server of the test's own, which it may kill and start
// again. It keeps what it has acknowledged, and ends with the test.
func StartPostgres(t testing.TB) *postgrestest.Server {
	t.Helper()
	s, err := postgrestest.New("synchronous_commit=on")
	require(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *server) url(database string) string {
	u := *s.base
	u.Path = "/" + database
	return u.String()
}

func (s *server) exec(statement string) error {
	_, err := s.admin.Exec(context.Background(), statement)
	return err
}

// makeTemplate creates the migrated template unless another process has. It
// migrates under another name and then renames, so a template is always
// complete.
func (s *server) makeTemplate(name string) error {
	ctx := context.Background()
	return s.admin.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(1)`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT COUNT(*) FROM pg_database WHERE datname = $1`, name)
		if n, err := store.One(rows, err, "Count", store.Value[int]); err != nil || n > 0 {
			return err
		}
		raw := name + "_raw"
		if err := s.exec(`DROP DATABASE IF EXISTS ` + raw); err != nil {
			return err
		}
		if err := s.exec(`CREATE DATABASE ` + raw + ` TEMPLATE template0`); err != nil {
			return err
		}
		if err := migrate(s.url(raw)); err != nil {
			return err
		}
		return s.exec(`ALTER DATABASE ` + raw + ` RENAME TO ` + name)
	})
}
