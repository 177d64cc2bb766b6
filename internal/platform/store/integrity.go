package store

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// VerifyIntegrity lists the defects that SQLite finds in its pages, indexes and foreign
// keys. It reads the whole file; the quick form skips the comparison of indexes
// with their tables. On PostgreSQL it does nothing: the server enforces foreign
// keys and checks pages as it reads them.
func VerifyIntegrity(ctx context.Context, db *DB, quick bool) (wrong []string, err error) {
	defer fault.Wrap(&err, "verify database")
	if db.Dialect().Name() == "postgres" {
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
	dangling, err := All(rows, err, func(row Row) (string, error) {
		var table, parent string
		var n int64
		err := row.Scan(&table, &n, &parent)
		return fmt.Sprintf("%d rows of %s point at rows of %s that are not there", n, table, parent), err
	})
	return append(wrong, dangling...), err
}
