package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

const insertOrg = `INSERT INTO organisations (id, name, plan, created_at) VALUES ($1, $1, $2, $3)`

func orgNames(t *testing.T, db *store.DB) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT name FROM organisations ORDER BY id`)
	names, err := store.All(rows, err, store.Value[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestInTx(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		now := time.Now()
		boom := errors.New("boom")
		err := db.InTx(ctx, func(tx *store.Tx) error {
			if _, err := tx.Exec(ctx, insertOrg, "a", "free", store.Micros(now)); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) {
			t.Fatalf("got %v, want boom", err)
		}
		if got := orgNames(t, db); len(got) != 0 {
			t.Fatalf("a failed transaction left %v", got)
		}
		if n, err := db.Exec(ctx, insertOrg, "b", "free", store.Micros(now)); n != 1 || err != nil {
			t.Fatalf("Exec = %d, %v", n, err)
		}
		if _, err := db.Exec(ctx, insertOrg, "b", "free", store.Micros(now)); !store.IsDuplicate(err) {
			t.Fatalf("got %v, want a duplicate", err)
		}
	})
}

func TestInTxPanics(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		func() {
			defer func() { _ = recover() }()
			_ = db.InTx(ctx, func(tx *store.Tx) error {
				_, _ = tx.Exec(ctx, insertOrg, "a", "free", 1)
				panic("boom")
			})
		}()
		if _, err := db.Exec(ctx, insertOrg, "a", "free", 1); err != nil {
			t.Fatalf("the panic left its transaction open or committed: %v", err)
		}
	})
}

func TestInTxOutlivesCancel(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		_ = db.InTx(ctx, func(tx *store.Tx) error {
			_, err := tx.Exec(ctx, insertOrg, "a", "free", 1)
			cancel()
			return errors.Join(err, ctx.Err())
		})
		if _, err := db.Exec(t.Context(), insertOrg, "a", "free", 1); err != nil {
			t.Fatalf("after a cancelled transaction: %v", err)
		}
	})
}

// TestDeletedMeanwhile deletes what a transaction has found and refers to. SQLite has
// one writer at a time.
func TestDeletedMeanwhile(t *testing.T) {
	db, ctx := storetest.Open(t, "postgres"), t.Context()
	for _, statement := range []string{
		`CREATE TABLE parents (id INT PRIMARY KEY)`, `CREATE TABLE children (parent INT REFERENCES parents)`, `INSERT INTO parents VALUES (1)`,
	} {
		if _, err := db.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	err := db.InTx(ctx, func(tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id FROM parents`)
		id, err := store.One(rows, err, "Parent", store.Value[int])
		if err != nil {
			return err
		}
		if _, err := db.Exec(ctx, `DELETE FROM parents`); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO children VALUES ($1)`, id)
		return err
	})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want that it is not found", err)
	}
}

func TestOneMissing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		rows, err := db.Query(t.Context(), `SELECT name FROM organisations WHERE id = $1`, "none")
		_, err = store.One(rows, err, "Organisation", store.Value[string])
		if !fault.Is(err, fault.NotFound) || err.Error() != "Organisation not found" {
			t.Errorf("got %v, want Organisation not found", err)
		}
	})
}

func TestTimes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
		if _, err := db.Exec(ctx, insertOrg, "a", "free", store.Micros(at)); err != nil {
			t.Fatal(err)
		}
		var got time.Time
		var none *time.Time
		rows, err := db.Query(ctx, `SELECT created_at, CAST(NULL AS BIGINT) FROM organisations`)
		_, err = store.One(rows, err, "Organisation", func(row store.Row) (int, error) {
			return 0, row.Scan(store.Time(&got), store.NullTime(&none))
		})
		if err != nil || !got.Equal(at) || none != nil {
			t.Errorf("got %v, %v, %v; want %v", got, none, err, at)
		}
	})
}

func TestReadersDoNotWrite(t *testing.T) {
	db := storetest.Open(t, "sqlite")
	rows, err := db.Query(t.Context(), insertOrg+` RETURNING id`, "a", "free", 1)
	if _, err = store.All(rows, err, store.Value[string]); err == nil {
		t.Error("a write outside a transaction went through Query")
	}
}

func TestInGroup(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		boom := errors.New("boom")
		var failed atomic.Int32
		var g errgroup.Group
		for i := range 200 {
			g.Go(func() error {
				err := db.InGroup(ctx, func(tx *store.Tx) error {
					if _, err := tx.Exec(ctx, insertOrg, fmt.Sprintf("%03d", i), "free", 1); err != nil {
						return err
					}
					if i%10 == 0 {
						return boom
					}
					return nil
				})
				if errors.Is(err, boom) {
					failed.Add(1)
					return nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if failed.Load() != 20 {
			t.Errorf("%d calls failed, want the 20 that returned an error", failed.Load())
		}
		var want []string
		for i := range 200 {
			if i%10 != 0 {
				want = append(want, fmt.Sprintf("%03d", i))
			}
		}
		if diff := cmp.Diff(want, orgNames(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestInGroupPanic(t *testing.T) {
	db := storetest.Open(t, "sqlite")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			err := db.InGroup(t.Context(), func(tx *store.Tx) error {
				if i == 7 {
					panic("boom")
				}
				_, err := tx.Exec(t.Context(), insertOrg, fmt.Sprint(i), "free", 1)
				return err
			})
			if (err != nil) != (i == 7) {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if n := len(orgNames(t, db)); n != 19 {
		t.Errorf("%d rows, want 19", n)
	}
}

func TestBulk(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		bulk := func(ids ...string) store.Bulk {
			times := make([]int64, len(ids))
			plans := make([]string, len(ids))
			return store.Bulk{
				Table: "organisations",
				Columns: []store.Column{
					store.Col("id", ids), store.Col("name", ids), store.Col("plan", plans), store.Col("created_at", times),
				},
				OnConflict: "ON CONFLICT (id) DO NOTHING",
				Returning:  "id",
			}
		}
		err := db.InTx(ctx, func(tx *store.Tx) error {
			n, err := bulk("a", "b").Insert(ctx, tx)
			if n != 2 || err != nil {
				return fmt.Errorf("Insert = %d, %w", n, err)
			}
			fresh, err := bulk("b", "c", "d").InsertReturning(ctx, tx)
			slices.Sort(fresh)
			if diff := cmp.Diff([]string{"c", "d"}, fresh); diff != "" {
				t.Error(diff)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	for _, url := range []string{"", "mysql://x", "postgres://u:secret@h:bad/db"} {
		_, err := store.Open(t.Context(), store.Options{URL: url})
		if !fault.Is(err, fault.Malformed) {
			t.Errorf("Open(%q) = %v, want a Malformed error", url, err)
		}
	}
}

func TestIn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		for _, id := range []string{"a", "b", `c"'`} {
			if _, err := db.Exec(ctx, insertOrg, id, "free", 1); err != nil {
				t.Fatal(err)
			}
		}
		in, ids := db.Dialect().In("$1", []string{"b", `c"'`, "none"})
		rows, err := db.Query(ctx, `SELECT id FROM organisations WHERE id`+in+` ORDER BY id`, ids)
		got, err := store.All(rows, err, store.Value[string])
		if diff := cmp.Diff([]string{"b", `c"'`}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
}

// TestByKey: each row is found once, however often it is asked for, and by index,
// also where PostgreSQL would rather read the whole table.
func TestByKey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, d := t.Context(), db.Dialect()
		ids := []string{"none", "none"}
		err := db.InTx(ctx, func(tx *store.Tx) error {
			for n := range 300 {
				id := fmt.Sprintf(`%d"'`, n)
				ids = append(ids, id, id)
				if _, err := tx.Exec(ctx, insertOrg, id, "free", n%2); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		from, list := d.ByKey("organisations", "id", "$1", ids)
		rows, err := db.Query(ctx, `SELECT id FROM `+from+` AND created_at = 1`, list)
		if got, err := store.All(rows, err, store.Value[string]); len(got) != 150 || err != nil {
			t.Error(len(got), err)
		}
		if d.Name() == "postgres" {
			rows, err := db.Query(ctx, `EXPLAIN SELECT id FROM `+from, list)
			plan, err := store.All(rows, err, store.Value[string])
			if err != nil || !slices.ContainsFunc(plan, func(step string) bool { return strings.Contains(step, "organisations_pkey") }) {
				t.Error(plan, err)
			}
		}
		from, list = d.ByPair("organisations", "id", "plan", "$1", [][2]string{{ids[2], "free"}, {ids[4], "none"}})
		rows, err = db.Query(ctx, `SELECT id FROM `+from, list)
		got, err := store.All(rows, err, store.Value[string])
		if diff := cmp.Diff(ids[2:3], got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
}

// TestSums: each row of the first table comes once with its sums, also without rows in
// the second, and each value of a list counts once.
func TestSums(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, d := t.Context(), db.Dialect()
		for _, sql := range []string{
			`INSERT INTO organisations (id, name, plan, created_at) VALUES ('a', 'a', 'free', 1), ('b', 'b', 'free', 2), ('c', 'c', 'team', 3)`,
			`INSERT INTO skills (id, org_id, name, created_at) VALUES ('a1', 'a', '1', 4), ('a2', 'a', '2', 5), ('c1', 'c', '1', 6)`,
		} {
			if _, err := db.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
		check := func(want []string, sql string, args ...any) {
			t.Helper()
			rows, err := db.Query(ctx, sql, args...)
			got, err := store.All(rows, err, func(row store.Row) (string, error) {
				var id string
				var n, sum int64
				err := row.Scan(&id, &n, &sum)
				return fmt.Sprint(id, " ", n, " ", sum), err
			})
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		check([]string{"a 2 5", "b 0 0"}, store.SumQuery{
			Keys: "o.id", From: "organisations AS o", Where: "o.plan = $1", Rows: "skills AS k", On: "k.org_id = o.id",
			Columns: []string{"COUNT(k.id)", "SUM(k.created_at) FILTER (WHERE k.created_at > $2)"},
		}.In(d)+` ORDER BY o.id`, "free", 4)
		check([]string{"a 1 1", "b 2 0", "c 3 1"}, `SELECT o.id, o.created_at, COUNT(k.id) FROM organisations o`+
			d.LeftLookup("skills", "k", "k.org_id = o.id AND k.name = '1'")+` GROUP BY o.id, o.created_at ORDER BY o.id`)
		list, arg := d.List("$1", []string{"c1", "a1", "none", "a1"})
		check([]string{"a1 4 0", "c1 6 0"}, `SELECT k.id, k.created_at, 0 FROM `+list+d.Lookup("skills", "k", "k.id = wanted.value")+` ORDER BY k.id`, arg)
	})
}

// TestCancelledBegin cancels the context at many moments of a transaction's
// begin. None may leave the one writing connection inside a transaction.
func TestCancelledBegin(t *testing.T) {
	db := storetest.Open(t, "sqlite")
	for i := range 3_000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%60)*time.Microsecond)
		_ = db.InTx(ctx, func(*store.Tx) error { return nil })
		cancel()
	}
	if _, err := db.Exec(t.Context(), insertOrg, "a", "free", 1); err != nil {
		t.Fatalf("the writer is stuck: %v", err)
	}
}

func TestInGroupAfterClose(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		db := storetest.Open(t, name)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.InGroup(t.Context(), func(*store.Tx) error { return nil }); err == nil {
			t.Errorf("%s: a closed database took a write", name)
		}
	}
}

// TestInNothing: nothing is in an empty list, nor in a nil one.
func TestInNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, none := range [][]string{nil, {}} {
			in, arg := db.Dialect().In("$1", none)
			rows, err := db.Query(t.Context(), `SELECT 'x' WHERE NOT ('y'`+in+`)`, arg)
			if got, err := store.All(rows, err, store.Value[string]); err != nil || len(got) != 1 {
				t.Errorf("%#v: got %v and %v, want a row", none, got, err)
			}
		}
	})
}

// TestCacheMemory: the caches of SQLite are bounded together, a third for the writer.
func TestCacheMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ bytes, writer, reader int64 }{{0, 32 << 10, 8 << 10}, {48 << 20, 8 << 10, 2 << 10}} {
		db, err := store.Open(t.Context(), store.Options{URL: storetest.URL(t, "sqlite"), CacheMemory: c.bytes})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var writer, reader int64
		err = db.InTx(t.Context(), func(tx *store.Tx) error {
			writer, err = cacheSize(t.Context(), tx)
			return err
		})
		if err == nil {
			reader, err = cacheSize(t.Context(), db)
		}
		if err != nil || writer != -c.writer || reader != -c.reader {
			t.Errorf("of %d bytes: cache_size %d of the writer and %d of a reader, %v; want %d and %d KiB", c.bytes, writer, reader, err, c.writer, c.reader)
		}
	}
}

func cacheSize(ctx context.Context, q store.Querier) (int64, error) {
	rows, err := q.Query(ctx, `PRAGMA cache_size`)
	return store.One(rows, err, "Pragma", store.Value[int64])
}
