package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

const day = 24 * time.Hour

// partitions lists the partitions of a table, with the number of their rows.
func partitions(t *testing.T, db *store.DB, table string) map[string]int64 {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT inhrelid::regclass::TEXT FROM pg_inherits WHERE inhparent = to_regclass($1)`, table)
	names, err := store.All(rows, err, store.Value[string])
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, name := range names {
		counts[name] = number(t, db, `SELECT COUNT(*) FROM `+name)
	}
	return counts
}

func number(t *testing.T, db *store.DB, query string, args ...any) int64 {
	t.Helper()
	rows, err := db.Query(t.Context(), query, args...)
	n, err := store.One(rows, err, "Number", store.Value[int64])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func exec(t *testing.T, db *store.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// wantPartitions checks what CheckPartitions says.
func wantPartitions(t *testing.T, db *store.DB, want ...string) {
	t.Helper()
	count, problems, err := db.CheckPartitions(t.Context())
	if err != nil || !slices.Equal(problems, want) || count == 0 && len(want) == 0 {
		t.Errorf("%d partitions, problems %q, %v; want %q", count, problems, err, want)
	}
}

// record inserts a record that was received at a time.
func record(t *testing.T, db *store.DB, id string, at time.Time) {
	t.Helper()
	exec(t, db, `INSERT INTO telemetry_records (id, org_id, user_id, kind, body, normalized_at, received_at)
		VALUES ($1, 'o', 'u', 'k', '{}', 0, $2)`, id, store.Micros(at))
}

// TestPartitionsAhead: a new database has partitions for now and what comes, and a
// job that runs again makes no others.
func TestPartitionsAhead(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	for _, table := range []string{"audit_entries", "event_deliveries", "event_records", "telemetry_prompts", "telemetry_records"} {
		if err := db.Partition(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := partitions(t, db, table)
		if len(before) < 5 { // before, now, two to come, and the default one
			t.Errorf("%s has the partitions %v, want five", table, before)
		}
		if err := db.Partition(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, partitions(t, db, table)); diff != "" {
			t.Errorf("the partitions of %s changed:\n%s", table, diff)
		}
	}
}

// TestClockAhead: rows of a clock that is a year ahead, and rows of long ago, are
// stored, found and deleted, and make few partitions.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	now := time.Now()
	if err := db.Partition(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(partitions(t, db, "telemetry_records"))
	for i := range 400 {
		record(t, db, fmt.Sprint("ahead", i), now.Add(366*day+time.Duration(i)*day))
	}
	record(t, db, "late", now.Add(-200*day))
	if err := db.Partition(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := partitions(t, db, "telemetry_records")
	if len(all) != before+1 || all["telemetry_records_rest"] != 400 {
		t.Errorf("partitions %v, want one more, and the rows of times to come apart", all)
	}
	if n := number(t, db, `SELECT COUNT(*) FROM telemetry_records`); n != 401 {
		t.Errorf("%d rows, want 401", n)
	}
	expire(t, db, now.Add(-100*day))
	if n := len(partitions(t, db, "telemetry_records")); n != before {
		t.Errorf("%d partitions, want the %d from before", n, before)
	}
	if n := number(t, db, `SELECT COUNT(*) FROM telemetry_records`); n != 400 {
		t.Errorf("%d rows are kept, want 400", n)
	}
	expire(t, db, now.Add(2000*day))
	if n := number(t, db, `SELECT COUNT(*) FROM telemetry_records`); n != 0 {
		t.Errorf("%d rows are kept, want 0", n)
	}
}

func expire(t *testing.T, db *store.DB, before time.Time) {
	t.Helper()
	if err := (store.Expiry{Table: "telemetry_records", Before: before}).Run(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

// TestMissingPartition: rows whose partition is missing are stored, and are in a
// partition of their own after the job has run.
func TestMissingPartition(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	now := time.Now()
	for name := range partitions(t, db, "telemetry_records") {
		if name != "telemetry_records_rest" {
			exec(t, db, `DROP TABLE `+name)
		}
	}
	wantPartitions(t, db, "telemetry_records has none for this time")
	for i := range 10 {
		record(t, db, fmt.Sprint(i), now)
	}
	wantPartitions(t, db, "telemetry_records has none for this time", "telemetry_records_rest has rows that belong into another")
	if err := db.Partition(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := partitions(t, db, "telemetry_records")
	if len(all) != 5 || all["telemetry_records_rest"] != 0 || number(t, db, `SELECT COUNT(*) FROM telemetry_records`) != 10 {
		t.Errorf("partitions %v, want the rows in one of five", all)
	}
	record(t, db, "ahead", now.AddDate(1, 0, 0))
	wantPartitions(t, db)
}

// TestReadWhileRowsMove: a query that waits while rows leave the default partition finds all
// of them.
func TestReadWhileRowsMove(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	for i := range 10 {
		record(t, db, fmt.Sprint(i), time.Now().Add(-200*day))
	}
	waiting := func() int64 {
		return number(t, db, `SELECT COUNT(*) FROM pg_locks WHERE NOT granted
			AND relation IN (to_regclass('telemetry_records'), to_regclass('telemetry_records_rest'))`)
	}
	moved, found := make(chan error, 1), make(chan int64, 1)
	err := db.InTx(t.Context(), func(tx *store.Tx) error {
		// A move needs more than this lock allows to attach the new partition, a query does not.
		if _, err := tx.Exec(t.Context(), `LOCK TABLE ONLY telemetry_records IN SHARE UPDATE EXCLUSIVE MODE`); err != nil {
			return err
		}
		go func() { moved <- db.Partition(t.Context()) }()
		apptest.Eventually(t, "the move waits", func() bool { return waiting() == 1 })
		go func() {
			rows, err := db.Query(t.Context(), `SELECT COUNT(*) FROM telemetry_records`)
			n, err := store.One(rows, err, "Number", store.Value[int64])
			if err != nil {
				t.Error(err)
			}
			found <- n
		}()
		// The move tries again if that takes too long, and lets the query pass.
		apptest.Eventually(t, "the query waits for the move", func() bool { return waiting() == 2 || len(found) > 0 })
		return nil
	})
	if n := <-found; err != nil || n != 10 {
		t.Errorf("found %d rows, %v; want 10", n, err)
	}
	if err := <-moved; err != nil {
		t.Error(err)
	}
	if all := partitions(t, db, "telemetry_records"); all["telemetry_records_rest"] != 0 {
		t.Errorf("partitions %v, want the rows in one of their own", all)
	}
}

// TestExpiry deletes what is too old, and no more, in every database: whole
// partitions and single rows, and tells whose they were.
func TestExpiry(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		now := time.Now()
		for i := range 2500 { // more than are deleted at a time
			record(t, db, fmt.Sprint("old", i), now.Add(-91*day))
		}
		record(t, db, "older", now.Add(-200*day))
		record(t, db, "young", now.Add(-89*day))
		record(t, db, "today", now)
		if err := db.Partition(t.Context()); err != nil {
			t.Fatal(err)
		}
		var told [][]string
		e := store.Expiry{
			Table: "telemetry_records", Before: now.Add(-90 * day),
			Orgs: func(ctx context.Context, q store.Querier, partition string) ([]string, error) {
				rows, err := q.Query(ctx, `SELECT DISTINCT org_id FROM `+partition)
				return store.All(rows, err, store.Value[string])
			},
			Note: func(_ context.Context, _ *store.Tx, orgs []string) error {
				told = append(told, orgs)
				return nil
			},
		}
		for range 2 {
			if err := e.Run(t.Context(), db); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := db.Query(t.Context(), `SELECT id FROM telemetry_records ORDER BY id`)
		left, err := store.All(rows, err, store.Value[string])
		if err != nil || !slices.Equal(left, []string{"today", "young"}) {
			t.Errorf("left %v, %v; want today and young", left, err)
		}
		if len(told) < 2 || slices.ContainsFunc(told, func(orgs []string) bool { return !slices.Equal(orgs, []string{"o"}) }) {
			t.Errorf("told of %v, want only of o", told)
		}
	})
}

// TestOnce: a row is inserted once, whichever partition the first one is in.
func TestOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		now := time.Now()
		record(t, db, "months ago", now.Add(-80*day))
		record(t, db, "a month ago", now.Add(-35*day))
		if err := db.Partition(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, want := range [][]string{{"new"}, {}} {
			ids := []string{"a month ago", "months ago", "new"}
			var fresh []string
			err := db.InTx(t.Context(), func(tx *store.Tx) (err error) {
				fresh, err = store.Bulk{
					Table: "telemetry_records",
					Columns: []store.Column{
						store.Col("id", ids),
						store.Col("org_id", []string{"o", "o", "o"}),
						store.Col("user_id", []string{"u", "u", "u"}),
						store.Col("kind", []string{"k", "k", "k"}),
						store.Col("body", []string{"{}", "{}", "{}"}),
						store.Col("normalized_at", []int64{0, 0, 0}),
						store.Col("received_at", slices.Repeat([]int64{store.Micros(now)}, 3)),
					},
					Once: "id", Returning: "id",
				}.InsertReturning(t.Context(), tx)
				return err
			})
			if err != nil || !slices.Equal(fresh, want) {
				t.Errorf("inserted %v, %v; want %v", fresh, err, want)
			}
		}
		if n := number(t, db, `SELECT COUNT(*) FROM telemetry_records`); n != 3 {
			t.Errorf("%d rows, want 3", n)
		}
	})
}

// TestLoadPartitions: rows of a backup are loaded into partitions of their own.
func TestLoadPartitions(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	now := time.Now()
	if err := db.Partition(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(partitions(t, db, "audit_entries"))
	err := db.LoadOnce(t.Context(), func(tx *store.Tx) error {
		tables, err := tx.Tables(t.Context())
		if err != nil {
			return err
		}
		table := tables[slices.IndexFunc(tables, func(t store.Table) bool { return t.Name == "audit_entries" })]
		var rows [][]any
		for i, age := range []time.Duration{100 * day, 100 * day, 200 * day, 0, -400 * day} {
			row := make([]any, len(table.Columns))
			for c, column := range table.Columns {
				row[c] = fmt.Sprint(i)
				if column == "at" {
					row[c] = store.Micros(now.Add(-age))
				}
			}
			rows = append(rows, row)
		}
		return tx.Load(t.Context(), table, rows)
	})
	if err != nil {
		t.Fatal(err)
	}
	all := partitions(t, db, "audit_entries")
	if len(all) != before+2 || all["audit_entries_rest"] != 1 || number(t, db, `SELECT COUNT(*) FROM audit_entries`) != 5 {
		t.Errorf("partitions %v, want two more than %d, and one row apart", all, before)
	}
}

// unpartitioned is a database of a binary that knows no partitions, with rows.
func unpartitioned(t *testing.T, rows int) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{URL: storetest.EmptyURL(t, "postgres"), MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.MigrateTo(t.Context(), 84); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `INSERT INTO organisations (id, name, plan, created_at) VALUES ('o', 'o', 'free', 0)`)
	now := store.Micros(time.Now())
	for _, text := range []string{
		`INSERT INTO telemetry_records SELECT 'r' || i, 'o', 'u', 'k', '{}', 0, $1 - i::BIGINT * 1000000 FROM generate_series(1, $2) i`,
		`INSERT INTO telemetry_prompts SELECT 'p' || i, 'o', 'u', 'p', 'k', '', 0, 0, $1 - i::BIGINT * 1000000 FROM generate_series(1, $2) i`,
		`INSERT INTO event_records SELECT 'e' || i, 'o', 'k', '', '{}', $1 - i::BIGINT * 1000000 FROM generate_series(1, $2) i`,
	} {
		exec(t, db, text, now, rows)
	}
	return db
}

// settle makes the upgrade look as if it was two days ago.
func settle(t *testing.T, db *store.DB) {
	t.Helper()
	exec(t, db, `UPDATE goose_db_version SET tstamp = tstamp - INTERVAL '2 days'`)
}

// TestPartitionOldTables: tables with rows become partitions without a copy, once
// no process of the binary before runs, and the schema then needs this binary.
func TestPartitionOldTables(t *testing.T) {
	t.Parallel()
	const rows = 1000
	db := unpartitioned(t, rows)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	oldest := func() int64 {
		return number(t, db, `SELECT oldest FROM schema_compat ORDER BY version DESC LIMIT 1`)
	}
	before := oldest()
	file := number(t, db, `SELECT pg_relation_filenode('telemetry_records')::BIGINT`)
	wantNone := func(when string) {
		t.Helper()
		if err := db.Partition(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all := partitions(t, db, "telemetry_records"); len(all) > 0 || oldest() != before {
			t.Errorf("%s: partitions %v, oldest binary %d; want none and %d", when, all, oldest(), before)
		}
		if count, problems, err := db.CheckPartitions(t.Context()); count > 0 || len(problems) > 0 || err != nil {
			t.Errorf("%s: %d partitions, problems %q, %v; want none, and that none is missed", when, count, problems, err)
		}
	}
	wantNone("just upgraded")
	settle(t, db)
	exec(t, db, `INSERT INTO job_workers (id, seen_at) VALUES ('before', 0)`)
	wantNone("a process of before runs")
	exec(t, db, `UPDATE job_workers SET schema_version = $1`, store.Newest())
	wantPartitions(t, db, "audit_entries has none yet", "event_records has none yet", "event_deliveries has none yet",
		"telemetry_prompts has none yet", "telemetry_records has none yet")
	if err := db.Partition(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"telemetry_records", "telemetry_prompts", "event_records"} {
		if all := partitions(t, db, table); all[table+"_p0"] != rows || len(all) < 3 {
			t.Errorf("%s has the partitions %v, want one with all %d rows, and others", table, all, rows)
		}
	}
	if now := number(t, db, `SELECT pg_relation_filenode('telemetry_records_p0')::BIGINT`); now != file {
		t.Error("the rows were copied")
	}
	wantPartitions(t, db)
	if got := oldest(); got < 85 {
		t.Errorf("oldest binary %d, want one that knows partitions", got)
	}
	if err := db.Migrate(t.Context()); err != nil { // as at the next start
		t.Fatal(err)
	}
	if got := oldest(); got < 85 {
		t.Errorf("after a restart: oldest binary %d, want one that knows partitions", got)
	}
	// The same as in a new database.
	fresh := storetest.Open(t, "postgres")
	if diff := cmp.Diff(shape(t, fresh), shape(t, db)); diff != "" {
		t.Errorf("an upgraded database differs from a new one (-new +upgraded):\n%s", diff)
	}
}

// shape lists the columns, indexes and foreign keys of the partitioned tables.
func shape(t *testing.T, db *store.DB) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), `
		SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind = 'p' AND a.attnum > 0
		UNION ALL SELECT pg_get_indexdef(i.indexrelid) FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid WHERE c.relkind = 'p'
		UNION ALL SELECT c.relname || ' ' || k.conname || ' ' || pg_get_constraintdef(k.oid)
		FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid WHERE c.relkind = 'p' ORDER BY 1`)
	all, err := store.All(rows, err, store.Value[string])
	if err != nil || len(all) < 20 {
		t.Fatalf("%v, %v", all, err)
	}
	return all
}

// TestPartitionResumes: a conversion that ended in the middle is done by the next.
// If no run resumes it, the constraint that it left is removed before it refuses rows.
func TestPartitionResumes(t *testing.T) {
	t.Parallel()
	db := unpartitioned(t, 10)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t, db)
	left := func(end time.Time) {
		exec(t, db, fmt.Sprintf(`ALTER TABLE telemetry_records ADD CONSTRAINT telemetry_records_before CHECK (received_at < %d) NOT VALID`,
			store.Micros(end)))
	}
	left(time.Now().Add(time.Hour))
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	record(t, db, "later", time.Now().Add(2*time.Hour))
	left(time.Now().Add(30 * day))
	for range 2 {
		if err := db.Partition(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if all := partitions(t, db, "telemetry_records"); all["telemetry_records_p0"] != 11 {
		t.Errorf("partitions %v, want one with all 11 rows", all)
	}
}

// TestPartitionWaits: a transaction that uses a table for long, such as a backup, makes
// neither the job nor the retention fail for good, and others go on.
func TestPartitionWaits(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	old := time.Now().Add(-200 * day)
	record(t, db, "old", old)
	if err := db.Partition(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := db.Snapshot(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.HasRows(t.Context(), store.Table{Name: "telemetry_records"}); err != nil {
			return err
		}
		expire(t, db, time.Now().Add(-100*day))
		record(t, db, "new", time.Now())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := number(t, db, `SELECT COUNT(*) FROM telemetry_records`); n != 2 {
		t.Errorf("%d rows while a backup reads, want 2", n)
	}
	expire(t, db, time.Now().Add(-100*day))
	if n := number(t, db, `SELECT COUNT(*) FROM telemetry_records`); n != 1 {
		t.Errorf("%d rows after it, want 1", n)
	}
}

// TestPartitionPruning: what asks for a time reads only the partitions of that time.
func TestPartitionPruning(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	if err := db.Partition(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, c := range []struct {
		name, sql string
		args      []any
		most      int // partitions that are read
	}{
		{"expired rows", `SELECT id FROM telemetry_records WHERE received_at < $1 LIMIT 10`, []any{store.Micros(now.Add(-90 * day))}, 1},
		{
			"audit log of a day", `SELECT id FROM audit_entries WHERE org_id = 'o' AND at >= $1 AND at < $2 ORDER BY at DESC, id DESC LIMIT 10`,
			[]any{store.Micros(now.Add(-time.Hour)), store.Micros(now)},
			3,
		},
	} {
		rows, err := db.Query(t.Context(), `EXPLAIN `+c.sql, c.args...)
		plan, err := store.All(rows, err, store.Value[string])
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(strings.Join(plan, "\n"), " on "); n > c.most {
			t.Errorf("%s: %d partitions are read, want at most %d:\n%s", c.name, n, c.most, strings.Join(plan, "\n"))
		}
	}
}
