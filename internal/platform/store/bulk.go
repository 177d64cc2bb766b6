package store

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// A Bulk inserts many rows at once, each column given as a slice: as arrays in
// one statement on PostgreSQL, with one prepared statement for every row on
// SQLite. Each is the fastest way there: a statement of several rows makes SQLite
// copy every page that it changes, in order to undo it alone (-20 % signals).
type Bulk struct {
	Table   string
	Columns []Column
	// OnConflict is the statement's ON CONFLICT clause, or "".
	OnConflict string
	// Once is the text column, one of Columns, of which a row is inserted only if the
	// table has none with the same value. Unlike OnConflict it works with partitions,
	// each of which has a unique index of its own. So callers must hold a lock that keeps
	// others from inserting the same values.
	Once string
	// Returning is the text column, one of Columns, whose values InsertReturning
	// returns.
	Returning string
	// New says that the rows are most likely all new. InsertReturning may fail then if
	// one is not (IsDuplicate): on PostgreSQL it inserts them without OnConflict and
	// Returning, which take a quarter of the time. SQLite's statement stays the same: a
	// failure there would undo the group of its transaction.
	New bool
}

// A Column is a name and its values, one for each row. Make it with Col.
type Column struct {
	name   string
	array  string // PostgreSQL's element type
	values any
	rows   int
	at     func(row int) any
}

// Col makes a column of a Bulk.
func Col[T string | *string | int64 | *int64 | float64 | *float64 | bool | *bool | []byte](name string, values []T) Column {
	return Column{
		name: name, array: elementType(*new(T)), values: values, rows: len(values),
		at: func(row int) any { return values[row] },
	}
}

func elementType(zero any) string {
	switch zero.(type) {
	case int64, *int64:
		return "bigint"
	case float64, *float64:
		return "double precision"
	case bool, *bool:
		return "boolean"
	case []byte:
		return "bytea"
	}
	return "text"
}

// Insert inserts the rows and returns how many were written.
func (b Bulk) Insert(ctx context.Context, tx *Tx) (int64, error) {
	if tx.dialect.postgres {
		return tx.Exec(ctx, b.unnest(), b.arrays()...)
	}
	var total int64
	err := tx.conn.(*sqliteConn).execEach(ctx, b.insertRow(), b.rows(), func(_ []any, n int64) { total += n })
	return total, err
}

// InsertReturning inserts the rows and returns the Returning column of those
// that were written: with ON CONFLICT DO NOTHING, of the new ones.
func (b Bulk) InsertReturning(ctx context.Context, tx *Tx) ([]string, error) {
	key := slices.IndexFunc(b.Columns, func(c Column) bool { return c.name == b.Returning })
	switch {
	case tx.dialect.postgres && b.New:
		b.OnConflict = ""
		_, err := b.Insert(ctx, tx)
		return b.Columns[key].values.([]string), err
	case tx.dialect.postgres:
		rows, err := tx.Query(ctx, b.unnest()+" RETURNING "+b.Returning, b.arrays()...)
		return All(rows, err, Value[string])
	}
	// The number of affected rows costs half of RETURNING.
	written := []string{}
	err := tx.conn.(*sqliteConn).execEach(ctx, b.insertRow(), b.rows(), func(row []any, n int64) {
		if n > 0 {
			written = append(written, row[key].(string))
		}
	})
	return written, err
}

func (b Bulk) names() string {
	names := make([]string, len(b.Columns))
	for i, c := range b.Columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

// unnest is the statement for PostgreSQL, with an array for each column.
func (b Bulk) unnest() string {
	arrays := make([]string, len(b.Columns))
	for i, c := range b.Columns {
		arrays[i] = fmt.Sprintf("$%d::%s[]", i+1, c.array)
	}
	if b.Once == "" {
		return fmt.Sprintf("INSERT INTO %s (%s) SELECT * FROM unnest(%s) %s",
			b.Table, b.names(), strings.Join(arrays, ", "), b.OnConflict)
	}
	// OFFSET 0 leaves nothing but a lookup for each row: see ByKey.
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT fresh.* FROM unnest(%s) AS fresh(%s) "+
		"LEFT JOIN LATERAL (SELECT TRUE AS there FROM %s WHERE %s.%s = fresh.%s OFFSET 0) AS known ON TRUE "+
		"WHERE known.there IS NULL ON CONFLICT DO NOTHING",
		b.Table, b.names(), strings.Join(arrays, ", "), b.names(), b.Table, b.Table, b.Once, b.Once)
}

func (b Bulk) arrays() []any {
	args := make([]any, len(b.Columns))
	for i, c := range b.Columns {
		args[i] = c.values
	}
	return args
}

// insertRow is the statement for SQLite, which inserts one row. Its parameters are ?,
// which that driver binds ten times faster than $N.
func (b Bulk) insertRow() string {
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(b.Columns)), ", ")
	onConflict := b.OnConflict
	if b.Once != "" {
		onConflict = "ON CONFLICT (" + b.Once + ") DO NOTHING"
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) %s", b.Table, b.names(), marks, onConflict)
}

// rows are the arguments of every row, in one slice that each is read from before the next.
func (b Bulk) rows() iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		args := make([]any, len(b.Columns))
		for row := range b.Columns[0].rows {
			for i, c := range b.Columns {
				args[i] = c.at(row)
			}
			if !yield(args) {
				return
			}
		}
	}
}

// A BulkUpdate sets columns of many rows at once, each identified by its key.
type BulkUpdate struct {
	Table string
	Key   Column
	Set   []Column
}

// Run updates the rows. A key without a row is not an error.
func (u BulkUpdate) Run(ctx context.Context, tx *Tx) error {
	if tx.dialect.postgres {
		_, err := tx.Exec(ctx, u.unnest(), Bulk{Columns: u.columns()}.arrays()...)
		return err
	}
	sets := make([]string, len(u.Set))
	for i, c := range u.Set {
		sets[i] = c.name + " = ?"
	}
	text := fmt.Sprintf("UPDATE %s SET %s WHERE %s = ?", u.Table, strings.Join(sets, ", "), u.Key.name)
	return tx.conn.(*sqliteConn).execEach(ctx, text, Bulk{Columns: u.columns()}.rows(), func([]any, int64) {})
}

// columns are those to set, then the key, as in the statement.
func (u BulkUpdate) columns() []Column { return append(u.Set[:len(u.Set):len(u.Set)], u.Key) }

// unnest is the statement for PostgreSQL, with an array for each column.
func (u BulkUpdate) unnest() string {
	columns := u.columns()
	arrays, names, sets := make([]string, len(columns)), make([]string, len(columns)), make([]string, len(u.Set))
	for i, c := range columns {
		arrays[i], names[i] = fmt.Sprintf("$%d::%s[]", i+1, c.array), c.name
	}
	for i, c := range u.Set {
		sets[i] = c.name + " = news." + c.name
	}
	return fmt.Sprintf("UPDATE %s SET %s FROM unnest(%s) AS news(%s) WHERE %s.%s = news.%s",
		u.Table, strings.Join(sets, ", "), strings.Join(arrays, ", "), strings.Join(names, ", "),
		u.Table, u.Key.name, u.Key.name)
}
