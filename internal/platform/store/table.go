package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Table is a table in a backup. It is the same for both databases.
type Table struct {
	Name    string
	Columns []string // sorted by name
	// References are its foreign keys.
	References []Reference

	booleans []bool // which columns are BOOLEAN on PostgreSQL; SQLite has integers
}

// A Reference says that a column has the values of a column of another table.
type Reference struct{ Column, Table, Target string }

// Tables lists the tables of our migrations, each after those that it refers to.
// The tables of libraries and schema_compat are left out.
func (tx *Tx) Tables(ctx context.Context) (_ []Table, err error) {
	defer fault.Wrap(&err, "list tables")
	columns, parents := sqliteTableColumns, sqliteTableParents
	if tx.dialect.postgres {
		columns, parents = postgresTableColumns, postgresTableParents
	}
	type column struct {
		table, name string
		boolean     bool
	}
	rows, err := tx.Query(ctx, columns)
	all, err := All(rows, err, func(row Row) (c column, err error) {
		err = row.Scan(&c.table, &c.name, &c.boolean)
		return c, err
	})
	if err != nil {
		return nil, err
	}
	byName := map[string]*Table{}
	for _, c := range all {
		// River kept the jobs of versions before: jobs.Save has them.
		if c.table == compatTable || slices.ContainsFunc([]string{"goose_", "river_", "sqlite_"}, func(library string) bool {
			return strings.HasPrefix(c.table, library)
		}) {
			continue
		}
		if byName[c.table] == nil {
			byName[c.table] = &Table{Name: c.table}
		}
		t := byName[c.table]
		t.Columns, t.booleans = append(t.Columns, c.name), append(t.booleans, c.boolean)
	}
	rows, err = tx.Query(ctx, parents)
	var refers [][2]string
	err = Each(rows, err, func(row Row) error {
		var name string
		var r Reference
		if err := row.Scan(&name, &r.Column, &r.Table, &r.Target); err != nil {
			return err
		}
		if t := byName[name]; t != nil {
			t.References = append(t.References, r)
		}
		refers = append(refers, [2]string{name, r.Table})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return parentsFirst(byName, refers)
}

const (
	sqliteTableColumns = `
		SELECT m.name, c.name, FALSE FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' ORDER BY m.name, c.name`
	sqliteTableParents = `
		SELECT m.name, f."from", f."table", f."to" FROM sqlite_master m, pragma_foreign_key_list(m.name) f
		WHERE m.type = 'table' ORDER BY m.name, f."from"`
	postgresTableColumns = `
		SELECT c.table_name::TEXT, c.column_name::TEXT, c.data_type = 'boolean'
		FROM information_schema.columns c
		JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
		WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
			AND NOT EXISTS (SELECT 1 FROM pg_class p WHERE p.oid = to_regclass(quote_ident(c.table_name)) AND p.relispartition)
		ORDER BY c.table_name COLLATE "C", c.column_name COLLATE "C"`
	postgresTableParents = `
		SELECT child.relname::TEXT, a.attname::TEXT, parent.relname::TEXT, b.attname::TEXT FROM pg_constraint k
		JOIN pg_class child ON child.oid = k.conrelid JOIN pg_class parent ON parent.oid = k.confrelid
		JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
		JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[1]
		WHERE k.contype = 'f' AND k.connamespace = current_schema()::regnamespace
		ORDER BY child.relname::TEXT COLLATE "C", a.attname::TEXT COLLATE "C"`
)

// parentsFirst sorts tables topologically: each after those that it refers to.
// refers are pairs of a table and one that it refers to.
func parentsFirst(byName map[string]*Table, refers [][2]string) ([]Table, error) {
	open := map[string][]string{}
	for name := range byName {
		open[name] = nil
	}
	for _, r := range refers {
		if _, ours := open[r[0]]; ours && r[0] != r[1] {
			open[r[0]] = append(open[r[0]], r[1])
		}
	}
	var sorted []Table
	for len(open) > 0 {
		var free []string
		for name, parents := range open {
			if !slices.ContainsFunc(parents, func(p string) bool { _, waits := open[p]; return waits }) {
				free = append(free, name)
			}
		}
		if len(free) == 0 {
			return nil, errors.New("tables refer to each other in a circle")
		}
		slices.Sort(free)
		for _, name := range free {
			sorted = append(sorted, *byName[name])
			delete(open, name)
		}
	}
	return sorted, nil
}

// Dump calls fn for every row of a table, with its values in the order of the
// columns: nil, int64, float64, string or []byte. A boolean is 0 or 1. fn must
// not keep the slice.
func (tx *Tx) Dump(ctx context.Context, t Table, fn func(row []any) error) error {
	return tx.DumpWhere(ctx, t, "TRUE", nil, fn)
}

// DumpWhere is Dump for the rows that meet a condition.
func (tx *Tx) DumpWhere(ctx context.Context, t Table, condition string, args []any, fn func(row []any) error) (err error) {
	defer fault.Wrap(&err, "dump %s", t.Name)
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s", strings.Join(t.Columns, ", "), t.Name, condition),
		args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	row, targets := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range row {
		targets[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		for i, v := range row {
			if boolean, ok := v.(bool); ok {
				row[i] = int64(0)
				if boolean {
					row[i] = int64(1)
				}
			}
		}
		if err := fn(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Load inserts rows that Dump returned, of either database.
func (tx *Tx) Load(ctx context.Context, t Table, rows [][]any) (err error) {
	defer fault.Wrap(&err, "load %s", t.Name)
	c, ok := tx.conn.(postgresConn)
	if !ok {
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", ")
		text := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.Name, strings.Join(t.Columns, ", "), marks)
		for _, row := range rows {
			if _, err := tx.Exec(ctx, text, row...); err != nil {
				return err
			}
		}
		return nil
	}
	for _, row := range rows {
		for i, boolean := range t.booleans {
			if n, ok := row[i].(int64); ok && boolean {
				row[i] = n != 0
			}
		}
	}
	if p, ok := partitionedTable(t.Name); ok {
		if err := p.makeFor(ctx, tx, t, rows); err != nil {
			return err
		}
	}
	_, err = c.q.CopyFrom(ctx, pgx.Identifier{t.Name}, t.Columns, pgx.CopyFromRows(rows))
	return err
}

// DeleteSome deletes at most limit of the rows of a table that meet a condition, and
// returns how many there were. It is for tables that no capability empties itself.
func (tx *Tx) DeleteSome(ctx context.Context, t Table, limit int, condition string, args ...any) (int64, error) {
	deleted, err := tx.deleteSome(ctx, t.Name, limit, condition, "''", args...)
	return int64(len(deleted)), err
}

// deleteSome returns a text of each row that it deletes.
func (tx *Tx) deleteSome(
	ctx context.Context, table string, limit int, condition, returning string, args ...any,
) (_ []string, err error) {
	defer fault.Wrap(&err, "delete from %s", table)
	if tx.dialect.postgres {
		// A row of another partition may have the same ctid: it must meet the condition, too.
		rows, err := tx.Query(ctx, fmt.Sprintf(
			"DELETE FROM %s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %s WHERE %s LIMIT %d)) AND (%s) RETURNING %s",
			table, table, condition, limit, condition, returning), args...)
		return All(rows, err, Value[string])
	}
	// A table has a primary key, a rowid or both.
	rows, err := tx.Query(ctx, `SELECT name FROM pragma_table_info($1) WHERE pk > 0 ORDER BY pk`, table)
	key, err := All(rows, err, Value[string])
	if err != nil {
		return nil, err
	}
	columns := cmp.Or(strings.Join(key, ", "), "rowid")
	rows, err = tx.Query(ctx, fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %s FROM %s WHERE %s LIMIT %d) RETURNING %s",
		table, columns, columns, table, condition, limit, returning), args...)
	return All(rows, err, Value[string])
}

// HasRows reports whether a table has a row.
func (tx *Tx) HasRows(ctx context.Context, t Table) (bool, error) {
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT 1 FROM %s LIMIT 1", t.Name))
	all, err := All(rows, err, Value[int64])
	return len(all) > 0, err
}

// SchemaVersion is the number of the newest migration that was applied, or 0.
func (tx *Tx) SchemaVersion(ctx context.Context) (_ int64, err error) {
	defer fault.Wrap(&err, "schema version")
	exists := `SELECT COUNT(*) FROM sqlite_master WHERE name = 'goose_db_version'`
	if tx.dialect.postgres {
		exists = `SELECT COUNT(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'goose_db_version'`
	}
	rows, err := tx.Query(ctx, exists)
	if n, err := One(rows, err, "Count", Value[int64]); err != nil || n == 0 {
		return 0, err
	}
	rows, err = tx.Query(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version`)
	return One(rows, err, "Version", Value[int64])
}
