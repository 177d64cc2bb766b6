package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

//go:embed migrations/sqlite migrations/postgres
var migrationFiles embed.FS

// sqliteSchema is the schema that all migrations of SQLite together make, with their numbers. An
// empty database gets it at once, in a seventh of the time: SQLite parses the whole schema
// anew after each ALTER TABLE. TestSchemaOfEmptyDatabase of the store writes it.
//
//go:embed migrations/sqlite.sql
var sqliteSchema string

// Migrations returns the files of "sqlite" or "postgres".
func Migrations(dialect string) fs.FS {
	sub, err := fs.Sub(migrationFiles, "migrations/"+dialect)
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// Newest is the version of the schema that this binary works with: the number of the newest
// migration.
func Newest() int64 {
	names, err := fs.Glob(Migrations("sqlite"), "*.sql")
	if err != nil || len(names) == 0 {
		panic("migrations: no files are embedded")
	}
	version, err := goose.NumericComponent(names[len(names)-1])
	if err != nil {
		panic(err) // the name is embedded, and goose has read it
	}
	return version
}

var oldestLine = regexp.MustCompile(`(?m)^-- Oldest binary: ([0-9]+)$`)

// OldestBinary is the version of the oldest binary that works with a version of the
// schema, i.e. with all migrations up to it. A binary's version is that of its newest
// migration.
//
// A migration is taken to break all older binaries unless its file has a line
//
//	-- Oldest binary: 31
//
// which is right for a new table or a column with a default, and for removing
// what binaries from 31 on do not use.
func OldestBinary(files fs.FS, version int64) (oldest int64, err error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		number, err := goose.NumericComponent(name)
		if err != nil {
			return 0, err
		}
		if number > version {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return 0, err
		}
		if line := oldestLine.FindSubmatch(text); line != nil {
			if number, err = strconv.ParseInt(string(line[1]), 10, 64); err != nil {
				return 0, err
			}
		}
		oldest = max(oldest, number)
	}
	return oldest, nil
}

// A SumQuery adds up, for each row of a table, the rows of another one that
// meet a condition, e.g. the days of each skill of an organisation, in the words of both
// databases. Like Dialect.Lookup, it finds them by an index, and reads nothing else.
type SumQuery struct {
	Keys    string   // columns of From: what is selected before the sums
	From    string   // the table with its alias: "skills AS k"
	Where   string   // the condition on From
	Rows    string   // the other table with its alias: "skill_days AS d"
	On      string   // the condition on Rows: "d.subject_id = k.id"
	Columns []string // aggregates that are integers: "SUM(d.sessions)"
}

// In is the query in SQL, without an order. A sum of no rows is 0.
func (s SumQuery) In(d Dialect) string {
	sums := make([]string, len(s.Columns))
	for i, column := range s.Columns {
		sums[i] = fmt.Sprintf("CAST(COALESCE(%s, 0) AS BIGINT) AS sum_%d", column, i)
	}
	all := strings.Join(sums, ", ")
	if d.Name() == "postgres" {
		return "SELECT " + s.Keys + ", sums.* FROM " + s.From +
			" CROSS JOIN LATERAL (SELECT " + all + " FROM " + s.Rows + " WHERE " + s.On + ") AS sums WHERE " + s.Where
	}
	return "SELECT " + s.Keys + ", " + all + " FROM " + s.From + " LEFT JOIN " + s.Rows + " ON " + s.On +
		" WHERE " + s.Where + " GROUP BY " + s.Keys
}

// compatTable stores, for a version of the schema, the oldest binary that works
// with it. So a binary that is older than the schema, e.g. in a rolling
// deployment, knows whether it may continue: see OldestBinary.
const (
	compatTable = "schema_compat"
	compatSince = 31 // the migration that creates it
)

// noteOldest stores the oldest binary for a version, for binaries that do not
// have its migrations.
func (db *DB) noteOldest(ctx context.Context, version int64) error {
	if version < compatSince {
		return nil
	}
	oldest, err := OldestBinary(Migrations(db.Dialect().Name()), version)
	if err != nil {
		return err
	}
	if has, err := db.hasPartitions(ctx); err != nil {
		return err
	} else if has {
		oldest = max(oldest, partitionsSince)
	}
	rows, err := db.Query(ctx, `SELECT COUNT(*) FROM schema_compat WHERE version = $1 AND oldest = $2`, version, oldest)
	if n, err := One(rows, err, "Count", Value[int64]); err != nil || n > 0 {
		return err // nothing is written where nothing has changed
	}
	_, err = db.Exec(ctx, `
		INSERT INTO schema_compat (version, oldest) VALUES ($1, $2)
		ON CONFLICT (version) DO UPDATE SET oldest = excluded.oldest`, version, oldest)
	return err
}

// CheckSchema fails with a Conflict if the schema is newer than this binary and
// this binary does not work with it.
func (db *DB) CheckSchema(ctx context.Context) error {
	var version, oldest int64
	err := db.Snapshot(ctx, func(tx *Tx) (err error) {
		if version, err = tx.SchemaVersion(ctx); err != nil || version <= Newest() {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT oldest FROM schema_compat WHERE version = $1`, version)
		oldest, err = One(rows, err, "Version", Value[int64])
		if fault.Is(err, fault.NotFound) {
			oldest, err = version, nil // it is being migrated, or precedes schema_compat
		}
		return err
	})
	if err != nil || oldest <= Newest() {
		return err
	}
	return fault.New(fault.Conflict, "the data has schema %d, which needs a Whetstone of schema %d or newer, "+
		"and this one is of schema %d: start the version that upgraded the data, "+
		"or restore the backup from before the upgrade into an empty place", version, oldest, Newest())
}

// hasPartitions reports whether a table is partitioned, or about to be.
func (db *DB) hasPartitions(ctx context.Context) (bool, error) {
	if !db.Dialect().postgres {
		return false, nil
	}
	var names []string
	for _, p := range partitionedTables {
		names = append(names, "'"+p.table+"'")
	}
	rows, err := db.Query(ctx, `
		SELECT COUNT(*) FROM pg_class c WHERE relnamespace = current_schema()::regnamespace
			AND relname IN (`+strings.Join(names, ", ")+`) AND (relkind = 'p'
				OR EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conrelid = c.oid AND k.conname = c.relname || '_before'))`)
	n, err := One(rows, err, "Count", Value[int64])
	return n > 0, err
}
