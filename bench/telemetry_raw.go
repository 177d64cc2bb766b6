package main

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

const rawBatch = 500 // rows in one of the driver's transactions

// ingestTables are those that a push writes, each after those it refers to.
func ingestTables() []string {
	return []string{
		"skills", "telemetry_pushes", "telemetry_prompts", "telemetry_records", "skill_observations", "skill_aliases",
		"skill_gradings", "skill_session_days", "skill_session_grades", "skill_days", "skill_totals", "agent_sessions",
		"agent_session_events", "agent_session_skills",
	}
}

// timeRaw reads what pushes left in a database, empties it, and tells how long
// the driver takes to insert the same rows again.
func timeRaw(ctx context.Context, url string) (time.Duration, error) {
	if path, is := strings.CutPrefix(url, "sqlite:"); is {
		return timeRawSQLite(ctx, path)
	}
	return timeRawPostgres(ctx, url)
}

// A rawTable is the content of a table and the statement that inserts it.
type rawTable struct {
	insert string
	rows   [][]any
	types  []uint32 // of the columns; PostgreSQL only
}

func timeRawSQLite(ctx context.Context, path string) (time.Duration, error) {
	db, err := sql.Open("sqlite", driverDSN(path))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	var tables []rawTable
	for _, name := range ingestTables() {
		t, err := readSQLite(ctx, db, name)
		if err != nil {
			return 0, err
		}
		tables = append(tables, t)
	}
	for _, name := range slices.Backward(ingestTables()) {
		if _, err := db.ExecContext(ctx, "DELETE FROM "+name); err != nil {
			return 0, err
		}
	}
	// The last two are how the service's writer is set up.
	for _, statement := range []string{
		"VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA cache_size = -65536", "PRAGMA wal_autocheckpoint = 8000",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	for _, t := range tables {
		if err := t.insertSQLite(ctx, db); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

func readSQLite(ctx context.Context, db *sql.DB, table string) (t rawTable, err error) {
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+table)
	if err != nil {
		return t, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return t, err
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", ")
	t.insert = fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(columns, ", "), marks)
	for rows.Next() {
		values, targets := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return t, err
		}
		t.rows = append(t.rows, values)
	}
	return t, rows.Err()
}

func (t rawTable) insertSQLite(ctx context.Context, db *sql.DB) error {
	insert, err := db.PrepareContext(ctx, t.insert)
	if err != nil {
		return err
	}
	defer insert.Close()
	for some := range slices.Chunk(t.rows, rawBatch) {
		if err := insertBatch(ctx, db, insert, some); err != nil {
			return err
		}
	}
	return nil
}

func timeRawPostgres(ctx context.Context, url string) (time.Duration, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var tables []rawTable
	for _, name := range ingestTables() {
		t, err := readPostgres(ctx, conn, name)
		if err != nil {
			return 0, err
		}
		tables = append(tables, t)
	}
	if _, err := conn.Exec(ctx, "TRUNCATE "+strings.Join(ingestTables(), ", ")+" CASCADE"); err != nil {
		return 0, err
	}
	start := time.Now()
	for _, t := range tables {
		for some := range slices.Chunk(t.rows, rawBatch) {
			// A statement of its own is a transaction of its own.
			if _, err := conn.Exec(ctx, t.insert, t.arrays(some)...); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(start), nil
}

func readPostgres(ctx context.Context, conn *pgx.Conn, table string) (t rawTable, err error) {
	rows, err := conn.Query(ctx, "SELECT * FROM "+table)
	if err != nil {
		return t, err
	}
	defer rows.Close()
	var names, arrays []string
	for i, f := range rows.FieldDescriptions() {
		kind, ok := map[uint32]string{
			pgtype.TextOID: "text", pgtype.Int8OID: "bigint", pgtype.BoolOID: "boolean",
		}[f.DataTypeOID]
		if !ok {
			return t, fmt.Errorf("%s.%s has a type that the benchmark does not know", table, f.Name)
		}
		names, t.types = append(names, f.Name), append(t.types, f.DataTypeOID)
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", i+1, kind))
	}
	t.insert = fmt.Sprintf("INSERT INTO %s (%s) SELECT * FROM unnest(%s)",
		table, strings.Join(names, ", "), strings.Join(arrays, ", "))
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return t, err
		}
		t.rows = append(t.rows, values)
	}
	return t, rows.Err()
}

// arrays turns rows into columns.
func (t rawTable) arrays(rows [][]any) []any {
	columns := make([]any, len(t.types))
	for i, kind := range t.types {
		switch kind {
		case pgtype.TextOID:
			columns[i] = typed[string](rows, i)
		case pgtype.Int8OID:
			columns[i] = typed[int64](rows, i)
		case pgtype.BoolOID:
			columns[i] = typed[bool](rows, i)
		}
	}
	return columns
}

// typed is a column of rows; nil is null.
func typed[T any](rows [][]any, column int) []*T {
	values := make([]*T, len(rows))
	for i, row := range rows {
		if v, ok := row[column].(T); ok {
			values[i] = &v
		}
	}
	return values
}
