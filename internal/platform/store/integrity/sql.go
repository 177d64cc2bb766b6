// Package integrity looks for defects of the database itself. It owns no tables.
package integrity

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Verify lists the defects that SQLite finds in its pages, indexes and foreign
// keys. It reads the whole file; the quick form skips the comparison of indexes
// with their tables. On PostgreSQL it does nothing: the server enforces foreign
// keys and checks pages as it reads them.
func Verify(ctx context.Context, db *store.DB, quick bool) (wrong []string, err error) {
	defer fault.Wrap(&err, "verify database")
	if db.Dialect().Name() == "postgres" {
		return nil, nil
	}
	check := "PRAGMA integrity_check(10)"
	if quick {
		check = "PRAGMA quick_check(10)"
	}
	rows, err := db.Query(ctx, check)
	lines, err := store.All(rows, err, store.Value[string])
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		if line != "ok" {
			wrong = append(wrong, line)
		}
	}
	rows, err = db.Query(ctx, `SELECT "table", COUNT(*), MIN(parent) FROM pragma_foreign_key_check GROUP BY 1`)
	dangling, err := store.All(rows, err, func(row store.Row) (string, error) {
		var table, parent string
		var n int64
		err := row.Scan(&table, &n, &parent)
		return fmt.Sprintf("%d rows of %s point at rows of %s that are not there", n, table, parent), err
	})
	return append(wrong, dangling...), err
}
