package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/postgrestest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// A pair is a server with a replica, and a database that reads from it.
type pair struct {
	primary, replica *postgrestest.Server
	db               *store.DB
	log              *lockedLog
	metrics          *prometheus.Registry
}

type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newPair(t *testing.T, lag time.Duration) *pair {
	t.Helper()
	p := &pair{primary: storetest.StartPostgres(t)}
	var err error
	if p.replica, err = p.primary.NewReplica(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.replica.Close() })
	p.open(t, p.replica.URL, lag)
	if _, err := p.db.Exec(t.Context(), `CREATE TABLE notes (id BIGINT PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	return p
}

// open opens the database with that replica, which is watched until the test ends.
func (p *pair) open(t *testing.T, replica string, lag time.Duration) {
	t.Helper()
	p.log, p.metrics = &lockedLog{}, prometheus.NewRegistry()
	var err error
	if p.db, err = store.Open(t.Context(), store.Options{URL: p.primary.URL, MaxConns: 8, Replica: &store.Replica{
		URL: replica, MaxLag: lag, Metrics: metrics.NewReplica(p.metrics), Log: slog.New(slog.NewTextHandler(p.log, nil)),
	}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		p.db.WatchReplica(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = p.db.Close()
	})
}

// count reads from the replica if it is usable, and tells whether it did.
func (p *pair) count(ctx context.Context) (n int64, fromReplica bool, err error) {
	err = p.db.FromReplica(ctx, func(ctx context.Context) error {
		rows, err := p.db.Query(ctx, `SELECT COUNT(*) FROM notes`)
		if n, err = store.One(rows, err, "Count", store.Value[int64]); err != nil {
			return err
		}
		rows, err = p.db.Query(ctx, `SELECT pg_is_in_recovery()`)
		fromReplica, err = store.One(rows, err, "State", store.Value[bool])
		return err
	})
	return n, fromReplica, err
}

func (p *pair) insert(ctx context.Context, id int) error {
	_, err := p.db.Exec(ctx, `INSERT INTO notes (id) VALUES ($1)`, id)
	return err
}

// until waits for reads of the replica, or of the primary.
func (p *pair) until(t *testing.T, replica bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("reads from the replica: %v", replica), func() bool {
		_, from, err := p.count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return from == replica
	})
}

// onReplica runs a statement on the replica itself.
func (p *pair) onReplica(t *testing.T, sql string) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{URL: p.replica.URL, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition. A busy machine may take long.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen: %s", what)
		}
	}
}

// TestReplica writes and reads: no read misses a write that was answered before, while
// the replica is up to date, behind, up to date again, frozen and gone, and none fails.
func TestReplica(t *testing.T) {
	t.Parallel()
	p := newPair(t, 500*time.Millisecond)
	p.until(t, true)
	id := int64(0)
	written := func() {
		t.Helper()
		for range 20 {
			id++
			if err := p.insert(t.Context(), int(id)); err != nil {
				t.Fatal(err)
			}
			if n, _, err := p.count(t.Context()); n != id || err != nil {
				t.Fatalf("%d rows, %v, want %d", n, err, id)
			}
		}
	}
	written()
	p.onReplica(t, `SELECT pg_wal_replay_pause()`)
	written()
	if _, from, err := p.count(t.Context()); from || err != nil {
		t.Errorf("a replica that is behind is read from: %v, %v", from, err)
	}
	p.onReplica(t, `SELECT pg_wal_replay_resume()`)
	p.until(t, true)
	written()
	if err := p.replica.Freeze(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.replica.Thaw() })
	written()
	if err := p.replica.Thaw(); err != nil {
		t.Fatal(err)
	}
	p.until(t, true)
	if err := p.replica.Kill(); err != nil {
		t.Fatal(err)
	}
	written()
	if err := p.replica.Start(); err != nil {
		t.Fatal(err)
	}
	p.until(t, true)
	written()
	for _, line := range []string{"it is more than 500ms behind", "is not used", "read from the replica"} {
		if !strings.Contains(p.log.String(), line) {
			t.Errorf("the log has no %q:\n%s", line, p.log)
		}
	}
}

// TestReplicaKilled reads from many goroutines while the replica is killed: none of
// them fails, and each sees what was written before.
func TestReplicaKilled(t *testing.T) {
	t.Parallel()
	p := newPair(t, 500*time.Millisecond)
	p.until(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			var last int64
			for ctx.Err() == nil {
				n, _, err := p.count(t.Context())
				if err != nil || n < last {
					cancel()
					return fmt.Errorf("%d rows after %d, %w", n, last, err)
				}
				last = n
			}
			return nil
		})
	}
	for id := range 300 {
		if err := p.insert(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if id == 150 {
			if err := p.replica.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// TestReplicaErrors: an error is never the replica's, and after a write the primary is
// read.
func TestReplicaErrors(t *testing.T) {
	t.Parallel()
	p := newPair(t, time.Minute)
	p.until(t, true)
	calls, wrong := 0, errors.New("wrong")
	err := p.db.FromReplica(t.Context(), func(ctx context.Context) error {
		calls++
		if _, _, err := p.countWithin(ctx); err != nil {
			return err
		}
		return wrong
	})
	if !errors.Is(err, wrong) || calls != 2 {
		t.Errorf("%v after %d calls, want 2", err, calls)
	}
	calls = 0
	err = p.db.FromReplica(t.Context(), func(ctx context.Context) error {
		calls++
		if _, from, err := p.countWithin(ctx); !from || err != nil {
			t.Errorf("read from the replica: %v, %v", from, err)
		}
		if err := p.insert(ctx, 1); err != nil {
			return err
		}
		if n, from, err := p.countWithin(ctx); from || n != 1 || err != nil {
			t.Errorf("after a write: %d, read from the replica: %v, %v", n, from, err)
		}
		return wrong
	})
	if !errors.Is(err, wrong) || calls != 1 {
		t.Errorf("what wrote was called %d times, %v", calls, err)
	}
	err = p.db.FromReplica(t.Context(), func(ctx context.Context) error {
		_, err := store.Returning(ctx, p.db, "Note", store.Value[int64], `INSERT INTO notes (id) VALUES (2) RETURNING id`)
		return err
	})
	if err != nil {
		t.Errorf("a statement that writes and returns: %v", err)
	}
	if _, from, err := p.countWithin(t.Context()); from || err != nil {
		t.Errorf("outside of FromReplica: read from the replica: %v, %v", from, err)
	}
}

// countWithin is count within FromReplica.
func (p *pair) countWithin(ctx context.Context) (n int64, fromReplica bool, err error) {
	rows, err := p.db.Query(ctx, `SELECT (SELECT COUNT(*) FROM notes), pg_is_in_recovery()`)
	_, err = store.One(rows, err, "Count", func(r store.Row) (struct{}, error) { return struct{}{}, r.Scan(&n, &fromReplica) })
	return n, fromReplica, err
}

// TestReplicaOfAnother is not used, and neither is a server that is none, nor one that
// is not there.
func TestReplicaOfAnother(t *testing.T) {
	t.Parallel()
	p := newPair(t, time.Second)
	other := storetest.StartPostgres(t)
	for url, want := range map[string]string{
		other.URL:     "it is not a replica of database-url",
		p.primary.URL: "it is not a replica, or is none any more",
		"postgres://whetstone@127.0.0.1:1/postgres?sslmode=disable": "is not used",
	} {
		p.open(t, url, time.Second)
		eventually(t, want, func() bool { return strings.Contains(p.log.String(), want) })
		if _, from, err := p.count(t.Context()); from || err != nil {
			t.Errorf("%s: read from the replica: %v, %v", url, from, err)
		}
	}
}

// TestReplicaOfSQLite is refused.
func TestReplicaOfSQLite(t *testing.T) {
	t.Parallel()
	_, err := store.Open(t.Context(), store.Options{URL: "sqlite:" + t.TempDir() + "/db", Replica: &store.Replica{}})
	if err == nil || !strings.Contains(err.Error(), "database-read-url") {
		t.Error(err)
	}
}
