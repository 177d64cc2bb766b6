package store

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// Verify lists what the database itself finds wrong with its pages, indexes
// and references. It reads all of a SQLite file, or of the quick form most.
// PostgreSQL keeps references by itself and checks its pages as it reads them.
func (db *DB) Verify(ctx context.Context, quick bool) (wrong []string, err error) {
	defer fault.Wrap(&err, "verify database")
	if db.Dialect().postgres {
		return nil, nil
	}
	check := "PRAGMA integrity_check(10)"
	if quick {
		check = "PRAGMA quick_check(10)"
	}
	rows, err := db.Query(ctx, check)
	lines, err := All(rows, err, Value[string])
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		if line != "ok" {
			wrong = append(wrong, line)
		}
	}
	rows, err = db.Query(ctx, `SELECT "table", COUNT(*), MIN(parent) FROM pragma_foreign_key_check GROUP BY 1`)
	loose, err := All(rows, err, func(row Row) (string, error) {
		var table, parent string
		var n int64
		err := row.Scan(&table, &n, &parent)
		return fmt.Sprintf("%d rows of %s point at rows of %s that are not there", n, table, parent), err
	})
	return append(wrong, loose...), err
}

// Clock is the time of the database's own clock.
func (db *DB) Clock(ctx context.Context) (time.Time, error) {
	text := `SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER)`
	if db.Dialect().postgres {
		text = `SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT`
	}
	rows, err := db.Query(ctx, text)
	us, err := One(rows, err, "Time", Value[int64])
	return time.UnixMicro(us).UTC(), err
}
