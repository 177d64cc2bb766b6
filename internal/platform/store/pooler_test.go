package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/postgrestest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestPooler works through a PgBouncer in transaction mode with four connections:
// processes that start at once migrate in turn, and statements, which no connection
// keeps, run beside each other.
func TestPooler(t *testing.T) {
	t.Parallel()
	server := storetest.StartPostgres(t)
	pooler, err := postgrestest.NewPooler(server.URL)
	if errors.Is(err, postgrestest.ErrNoPooler) && os.Getenv("WHETSTONE_TEST_POOLER") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pooler.Close() })
	for range 2 { // the second finds no lock that the first left behind
		var g errgroup.Group
		for range 4 {
			g.Go(func() error { return useThroughPooler(t.Context(), pooler.URL("postgres")) })
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	direct, err := store.Open(t.Context(), store.Options{URL: server.URL, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	rows, err := direct.Query(t.Context(), `SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'`)
	if n, err := store.One(rows, err, "Count", store.Value[int64]); err != nil || n != 0 {
		t.Errorf("%d locks are left behind, %v", n, err)
	}
	if pending, err := direct.Pending(t.Context()); pending || err != nil {
		t.Errorf("pending %v, %v", pending, err)
	}
}

// useThroughPooler migrates and runs 30 different statements, each many times, from
// more goroutines than the pooler has connections.
func useThroughPooler(ctx context.Context, url string) error {
	db, err := store.Open(ctx, store.Options{URL: url, MaxConns: 8})
	if err != nil {
		return err
	}
	defer db.Close()
	if !db.Pooled() {
		return errors.New("the database does not know of the pooler")
	}
	if err := db.Migrate(ctx); err != nil {
		return err
	}
	var g errgroup.Group
	for worker := range 16 {
		g.Go(func() error {
			for i := range 60 {
				n := int64(worker*1000 + i)
				rows, err := db.Query(ctx, fmt.Sprintf(`SELECT $1::BIGINT + %d`, i%30), n)
				got, err := store.One(rows, err, "Sum", store.Value[int64])
				if err != nil {
					return err
				}
				if want := n + int64(i%30); got != want {
					return fmt.Errorf("%d, want %d", got, want)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// TestPoolerParameter: what the pooler is must be one of two words.
func TestPoolerParameter(t *testing.T) {
	t.Parallel()
	_, err := store.Open(t.Context(), store.Options{URL: "postgres://u:hunter2@127.0.0.1:1/w?pooler=statement"})
	if err == nil || !strings.Contains(err.Error(), "pooler in database-url must be transaction or session") {
		t.Error(err)
	}
}
