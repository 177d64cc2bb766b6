package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"modernc.org/sqlite"
)

// A Row is one row of a result, for a scan function.
type Row interface {
	Scan(dest ...any) error
}

// One reads the first row of a query. If there is none, the error is of kind
// fault.NotFound and names the thing, e.g. "Review not found".
func One[T any](rows Rows, err error, thing string, scan func(Row) (T, error)) (T, error) {
	var zero T
	all, err := All(rows, err, scan)
	if err != nil {
		return zero, err
	}
	if len(all) == 0 {
		return zero, fault.New(fault.NotFound, "%s not found", thing)
	}
	return all[0], nil
}

// All reads all rows of a query. The result is never nil, so that an empty list
// is [] in JSON.
func All[T any](rows Rows, err error, scan func(Row) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("scan: %w", err)
		}
		all = append(all, item)
	}
	return all, rows.Err()
}

// Each calls fn for each row of a query.
func Each(rows Rows, err error, fn func(Row) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Value scans a row of one column.
func Value[T any](row Row) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

// Micros is a time as the databases store it: microseconds since the epoch.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// NullMicros is Micros for a time that may be nil.
func NullMicros(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

// Time is a scan target for a time column.
func Time(t *time.Time) sql.Scanner { return timeScanner{t} }

// NullTime is a scan target for a time column that may be null.
func NullTime(t **time.Time) sql.Scanner { return nullTimeScanner{t} }

type timeScanner struct{ t *time.Time }

func (s timeScanner) Scan(src any) error {
	us, ok := src.(int64)
	if !ok {
		return fmt.Errorf("a time is stored as %T", src)
	}
	*s.t = time.UnixMicro(us).UTC()
	return nil
}

type nullTimeScanner struct{ t **time.Time }

func (s nullTimeScanner) Scan(src any) error {
	if src == nil {
		*s.t = nil
		return nil
	}
	*s.t = new(time.Time)
	return timeScanner{*s.t}.Scan(src)
}

// IsDuplicate reports whether err is the violation of a unique constraint.
func IsDuplicate(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505"
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == sqliteUnique || e.Code() == sqlitePrimaryKey
	}
	return false
}

// SQLite's extended result codes for a violated unique constraint.
const (
	sqliteUnique     = 2067
	sqlitePrimaryKey = 1555
)

// NewID returns a new id, a UUID of version 7: ids sort by the time at which they
// were made.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Now is the time in UTC with the precision that the databases store.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Like is the pattern that matches text anywhere, with its wildcards escaped. An
// empty text has an empty pattern. It is for
//
//	lower(column) LIKE lower($1) ESCAPE '\'
//
// The database lowers both sides, because databases do not agree on which
// letters have a case.
func Like(text string) string {
	if text == "" {
		return ""
	}
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

// Clock is the time of the database's own clock.
func (db *DB) Clock(ctx context.Context) (time.Time, error) {
	rows, err := db.Query(ctx, `SELECT `+db.Dialect().Now())
	us, err := One(rows, err, "Time", Value[int64])
	return time.UnixMicro(us).UTC(), err
}
