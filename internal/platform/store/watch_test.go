package store_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// watched opens a database of each kind whose statements are all slow.
func watched(t *testing.T, slow time.Duration, test func(t *testing.T, db *store.DB, lines func() []map[string]any, metrics *prometheus.Registry)) {
	t.Parallel()
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, registry := &logged{}, prometheus.NewRegistry()
			db, err := store.Open(t.Context(), store.Options{URL: storetest.URL(t, name), Watch: &store.Statements{
				Metrics: metrics.NewStatements(registry), Slow: slow, Log: slog.New(slog.NewJSONHandler(log, nil)),
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			test(t, db, func() []map[string]any { return log.lines(t) }, registry)
		})
	}
}

type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// TestSlowStatements logs the text, where it is from and how many rows it had,
// and none of its values.
func TestSlowStatements(t *testing.T) {
	watched(t, time.Nanosecond, func(t *testing.T, db *store.DB, lines func() []map[string]any, _ *prometheus.Registry) {
		const secret = "hunter2"
		ctx := t.Context()
		if err := db.InTx(ctx, func(tx *store.Tx) error {
			rows, err := tx.Query(ctx, `SELECT $1
				|| 'x' UNION ALL SELECT 'y'`, secret)
			if _, err = store.All(rows, err, store.Value[string]); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `DELETE FROM jobs WHERE kind = $1`, secret)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		rows, err := db.Query(ctx, `SELECT $1 || no_such_column FROM jobs`, secret)
		if _, err := store.All(rows, err, store.Value[string]); err == nil {
			t.Fatal("a column that does not exist was read")
		}
		found := map[string]map[string]any{}
		for _, line := range lines() {
			if text, ok := line["statement"].(string); ok {
				found[text] = line
			}
			for key, value := range line {
				if s, ok := value.(string); ok && strings.Contains(s, secret) {
					t.Errorf("the value of a parameter is logged as %s: %s", key, s)
				}
			}
		}
		read := found[`SELECT $1 || 'x' UNION ALL SELECT 'y'`]
		if read == nil {
			t.Fatalf("the query is not logged; %v", found)
		}
		if at, _ := read["at"].(string); !strings.HasPrefix(at, "internal/platform/store_test/watch_test.go:") {
			t.Errorf("it is from %q", at)
		}
		if read["rows"] != 2.0 || read["level"] != "WARN" || read["took"] == nil {
			t.Errorf("it is logged as %v, want 2 rows and its time", read)
		}
		if found[`DELETE FROM jobs WHERE kind = $1`] == nil || found["COMMIT"] == nil && found["commit"] == nil {
			t.Errorf("the write or its commit is not logged: %v", found)
		}
	})
}

// TestSlowStatementsAreFew: a database that is slow as a whole does not fill the log.
func TestSlowStatementsAreFew(t *testing.T) {
	watched(t, time.Nanosecond, func(t *testing.T, db *store.DB, lines func() []map[string]any, _ *prometheus.Registry) {
		started := time.Now()
		for range 200 {
			rows, err := db.Query(t.Context(), `SELECT 1`)
			if _, err := store.All(rows, err, store.Value[int64]); err != nil {
				t.Fatal(err)
			}
		}
		if most := 10 * (int(time.Since(started)/time.Second) + 2); len(lines()) > most {
			t.Errorf("%d lines, want at most %d", len(lines()), most)
		}
	})
}

// TestStatementsAreMeasured also without a slow-query log.
func TestStatementsAreMeasured(t *testing.T) {
	watched(t, 0, func(t *testing.T, db *store.DB, lines func() []map[string]any, metrics *prometheus.Registry) {
		before, _ := statements(t, metrics)
		rows, err := db.Query(t.Context(), `SELECT 1`)
		if _, err := store.All(rows, err, store.Value[int64]); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), `INSERT INTO jobs (no_such_column) VALUES (1)`); err == nil {
			t.Fatal("a column that does not exist was written")
		}
		after, _ := statements(t, metrics)
		if after <= before {
			t.Errorf("%d statements were measured before and %d after", before, after)
		}
		if len(lines()) > 0 {
			t.Errorf("lines are logged without a limit: %v", lines())
		}
	})
}

func statements(t *testing.T, registry *prometheus.Registry) (measured uint64, failed float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		measured += f.GetMetric()[0].GetHistogram().GetSampleCount()
		failed += f.GetMetric()[0].GetCounter().GetValue()
	}
	return measured, failed
}

// TestStatsOfWriters counts who waits for SQLite's only writer.
func TestStatsOfWriters(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), store.Options{URL: storetest.URL(t, "sqlite")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	err = db.InTx(t.Context(), func(*store.Tx) error {
		go func() { waited <- db.InTx(ctx, func(*store.Tx) error { return nil }) }()
		for db.Stats().Writers == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-waited
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := db.Stats()
	if s.Writers != 0 || s.Waits != 1 || s.Waited <= 0 || s.Max != 9 {
		t.Errorf("afterwards the figures are %+v", s)
	}
}
