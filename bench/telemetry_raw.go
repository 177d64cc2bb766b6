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

const rawBatch = 500 // rows in one of the driver's transactions, table by table

// ingestTables are those that a push writes, each after those it refers to.
func ingestTables() []string {
	return []string{
		"skills", "telemetry_pushes", "telemetry_prompts", "telemetry_records", "skill_observations", "skill_aliases",
		"skill_gradings", "skill_session_days", "skill_session_grades", "skill_days", "skill_totals", "agent_sessions",
		"agent_session_events", "agent_session_skills",
	}
}

// rawTimes are how long the driver takes to insert rows.
type rawTimes struct {
	apart    time.Duration // table by table, in batches: none fills another's cache
	together time.Duration // body by body, all tables in one transaction, as they came
}

// timeRaw reads what bodies left in tables, empties these, and tells how long the
// driver takes to insert the same rows again, in both ways.
func timeRaw(ctx context.Context, url string, names []string, batch, bodies int) (times rawTimes, err error) {
	var db rawDB
	if path, is := strings.CutPrefix(url, "sqlite:"); is {
		db, err = openRawSQLite(path)
	} else {
		db, err = openRawPostgres(ctx, url)
	}
	if err != nil {
		return times, err
	}
	defer db.close()
	tables := make([]*rawTable, len(names))
	for i, name := range names {
		t, err := db.read(ctx, name)
		if err != nil {
			return times, err
		}
		t.name = name
		tables[i] = &t
	}
	if times.apart, err = timeInserts(ctx, db, names, apart(tables, batch)); err != nil {
		return times, err
	}
	times.together, err = timeInserts(ctx, db, names, together(tables, bodies))
	return times, err
}

func timeInserts(ctx context.Context, db rawDB, names []string, all []rawTx) (time.Duration, error) {
	if err := db.empty(ctx, names); err != nil {
		return 0, err
	}
	start := time.Now()
	for _, tx := range all {
		if err := db.insert(ctx, tx); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// A rawTable is the content of a table and the statement that inserts it.
type rawTable struct {
	name   string
	insert string
	rows   [][]any
	types  []uint32 // of the columns; PostgreSQL only
}

// A rawTx is one transaction: rows of one table or of several.
type rawTx []rawRows

type rawRows struct {
	table *rawTable
	rows  [][]any
}

func apart(tables []*rawTable, batch int) (all []rawTx) {
	for _, t := range tables {
		for some := range slices.Chunk(t.rows, batch) {
			all = append(all, rawTx{{t, some}})
		}
	}
	return all
}

// together spreads the rows of each table over the bodies in their order. Tables
// with few rows were complete after the first one, and sessions are one body
// ahead: rows of others refer to them.
func together(tables []*rawTable, bodies int) []rawTx {
	all := make([]rawTx, bodies)
	for _, t := range tables {
		end := func(body int) int {
			if len(t.rows) < bodies {
				return len(t.rows)
			}
			if t.name == "agent_sessions" {
				body++
			}
			return min(len(t.rows), (body+1)*len(t.rows)/bodies)
		}
		from := 0
		for i := range all {
			if to := end(i); to > from {
				all[i] = append(all[i], rawRows{t, t.rows[from:to]})
				from = to
			}
		}
	}
	return all
}

// rawDB is a database without the service.
type rawDB interface {
	read(ctx context.Context, table string) (rawTable, error)
	empty(ctx context.Context, tables []string) error // later tables refer to earlier ones
	insert(ctx context.Context, tx rawTx) error
	close()
}

type rawSQLite struct {
	*sql.DB
	prepared map[string]*sql.Stmt // by table
}

func openRawSQLite(path string) (rawDB, error) {
	db, err := sql.Open("sqlite", driverDSN(path))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &rawSQLite{db, map[string]*sql.Stmt{}}, nil
}

func (db *rawSQLite) close() { _ = db.Close() }

func (db *rawSQLite) empty(ctx context.Context, tables []string) error {
	var statements []string
	for _, name := range slices.Backward(tables) {
		statements = append(statements, "DELETE FROM "+name)
	}
	// The last two are how the service's writer is set up.
	for _, statement := range append(statements,
		"VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA cache_size = -32768", "PRAGMA wal_autocheckpoint = 8000") {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (db *rawSQLite) insert(ctx context.Context, all rawTx) error {
	for _, some := range all { // before the transaction has the only connection
		if err := db.prepare(ctx, some.table); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	for _, some := range all {
		if err := db.insertRows(ctx, tx, some); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (db *rawSQLite) prepare(ctx context.Context, t *rawTable) (err error) {
	if db.prepared[t.name] == nil {
		db.prepared[t.name], err = db.PrepareContext(ctx, t.insert) //nolint:sqlclosecheck // close closes the database
	}
	return err
}

func (db *rawSQLite) insertRows(ctx context.Context, tx *sql.Tx, some rawRows) error {
	insert := tx.StmtContext(ctx, db.prepared[some.table.name])
	defer insert.Close()
	for _, row := range some.rows {
		if _, err := insert.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	return nil
}

// arrival is the ORDER BY for tables WITHOUT ROWID, which SQLite returns sorted by
// their random primary key. A sorted insert would be faster than any real one.
func arrival(table string) string {
	switch table {
	case "agent_session_events", "agent_session_skills":
		return "JOIN agent_sessions s ON s.id = t.session_id ORDER BY s.rowid"
	}
	return ""
}

func (db *rawSQLite) read(ctx context.Context, table string) (t rawTable, err error) {
	rows, err := db.QueryContext(ctx, "SELECT t.* FROM "+table+" t "+arrival(table))
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

type rawPostgres struct{ *pgx.Conn }

func openRawPostgres(ctx context.Context, url string) (rawDB, error) {
	conn, err := pgx.Connect(ctx, url)
	return rawPostgres{conn}, err
}

func (db rawPostgres) close() { _ = db.Close(context.Background()) }

func (db rawPostgres) empty(ctx context.Context, tables []string) error {
	_, err := db.Exec(ctx, "TRUNCATE "+strings.Join(tables, ", ")+" CASCADE")
	return err
}

func (db rawPostgres) insert(ctx context.Context, rows rawTx) error {
	if len(rows) == 1 { // a statement of its own is a transaction of its own
		_, err := db.Exec(ctx, rows[0].table.insert, rows[0].table.arrays(rows[0].rows)...)
		return err
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		for _, some := range rows {
			if _, err := tx.Exec(ctx, some.table.insert, some.table.arrays(some.rows)...); err != nil {
				return err
			}
		}
		return nil
	})
}

func (db rawPostgres) read(ctx context.Context, table string) (t rawTable, err error) {
	rows, err := db.Query(ctx, "SELECT * FROM "+table)
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
