// Package store keeps the service's data in SQLite (embedded) or PostgreSQL
// (scaled out) behind one small API. Capabilities write each statement once,
// and it runs on both. Only this package imports the database drivers. It owns
// the table schema_compat.
package store

import (
	"context"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Querier runs statements, inside a transaction (*Tx) or outside (*DB).
// Parameters are written $1, $2, ... on both databases.
type Querier interface {
	// Query reads rows. Hand its results to One or All, which close them.
	// Outside a transaction it must not write: SQLite's readers refuse to.
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
	// Exec writes and returns the number of rows it touched.
	Exec(ctx context.Context, sql string, args ...any) (int64, error)
	// Dialect names the few differences between the databases.
	Dialect() Dialect
}

// Rows is a result being read.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	engine  engine
	replica *replica // nil without one
}

// Tx is a transaction in progress. It must be used by one goroutine only, and
// not after the function it was passed to has returned.
type Tx struct {
	conn    conn
	dialect Dialect
	after   []func()
}

// engine is implemented for each of the two databases.
type engine interface {
	conn
	inTx(ctx context.Context, fn func(*Tx) error) error
	inGroup(ctx context.Context, fn func(*Tx) error) error
	snapshot(ctx context.Context, fn func(*Tx) error) error
	loadOnce(ctx context.Context, fn func(*Tx) error) error
	migrate(ctx context.Context, to int64) error
	pending(ctx context.Context) (bool, error)
	ping(ctx context.Context) error
	dialect() Dialect
	stats() Stats
	close() error
}

type conn interface {
	query(ctx context.Context, sql string, args []any) (Rows, error)
	exec(ctx context.Context, sql string, args []any) (int64, error)
}

// Options configure Open.
type Options struct {
	// URL is sqlite:PATH or postgres://...
	URL string
	// MaxConns limits the connections; 0 means 8 readers on SQLite and 16
	// connections to PostgreSQL.
	MaxConns int
	// CacheMemory bounds what the page caches of SQLite take; MaxCache when 0.
	CacheMemory int64
	// Watch, if not nil, observes the statements.
	Watch *Statements
	// Replica, if not nil, is a replica of the database, which must be PostgreSQL.
	Replica *Replica
}

// Open opens the database. It does not migrate.
func Open(ctx context.Context, o Options) (_ *DB, err error) {
	defer fault.Wrap(&err, "open database")
	var e engine
	switch {
	case strings.HasPrefix(o.URL, "sqlite:") && o.Replica != nil:
		return nil, fault.Invalid("database-read-url", "database-read-url must be empty with SQLite, which has no replica")
	case strings.HasPrefix(o.URL, "sqlite:"):
		e, err = openSQLite(ctx, strings.TrimPrefix(o.URL, "sqlite:"), o)
	case strings.HasPrefix(o.URL, "postgres://"), strings.HasPrefix(o.URL, "postgresql://"):
		e, err = openPostgres(ctx, o)
	default:
		return nil, fault.Invalid("database-url", "database-url must be sqlite:PATH or postgres://...")
	}
	if err != nil {
		return nil, err
	}
	db := &DB{engine: e}
	if o.Replica != nil {
		if db.replica, err = openReplica(ctx, o); err != nil {
			_ = db.Close()
			return nil, err
		}
	}
	return db, nil
}

// Close releases all connections.
func (db *DB) Close() error {
	if db.replica != nil {
		db.replica.close()
	}
	return db.engine.close()
}

// Ping reports whether the database answers.
func (db *DB) Ping(ctx context.Context) error { return db.engine.ping(ctx) }

// Dialect names the few differences between the databases.
func (db *DB) Dialect() Dialect { return db.engine.dialect() }

// Stats counts the connections in use, for the metrics page.
func (db *DB) Stats() Stats { return db.engine.stats() }

// Query reads rows outside a transaction.
func (db *DB) Query(ctx context.Context, sql string, args ...any) (Rows, error) {
	if r := db.replicaOf(ctx); r != nil {
		return r.query(ctx, sql, args)
	}
	return db.engine.query(ctx, sql, args)
}

// Exec runs one statement in a transaction of its own.
func (db *DB) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	db.writes(ctx)
	return db.engine.exec(ctx, sql, args)
}

// InTx runs fn in a transaction and commits it if fn returns nil. fn may run
// more than once (PostgreSQL aborts one transaction of a deadlock, which is then
// retried), so it must set its results rather than add to them.
func (db *DB) InTx(ctx context.Context, fn func(tx *Tx) error) error {
	db.writes(ctx)
	return db.engine.inTx(ctx, fn)
}

// InGroup is InTx with group commit, for frequent small writes: on SQLite,
// concurrent calls share one commit, and each returns when it is durable. With
// 32 concurrent callers that is 4 to 12 times the rows of InTx
// (BenchmarkCommit). As with InTx, fn may run more than once. The organisations of
// the callers take turns; a call that finds too many waiting is fault.Unavailable.
func (db *DB) InGroup(ctx context.Context, fn func(tx *Tx) error) error {
	db.writes(ctx)
	return db.engine.inGroup(ctx, fn)
}

// Returning runs one statement that writes and returns a row, such as INSERT ...
// RETURNING, and scans the row. It is InGroup for a single statement:
// PostgreSQL needs no BEGIN and COMMIT around it, which saves two of three
// round trips.
func Returning[T any](
	ctx context.Context, db *DB, thing string, scan func(Row) (T, error), sql string, args ...any,
) (v T, err error) {
	if _, ok := db.engine.(*postgresEngine); ok {
		db.writes(ctx)
		rows, err := db.engine.query(ctx, sql, args)
		return One(rows, err, thing, scan)
	}
	err = db.InGroup(ctx, func(tx *Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		v, err = One(rows, err, thing, scan)
		return err
	})
	return v, err
}

// Query reads rows inside the transaction, its own writes included.
func (tx *Tx) Query(ctx context.Context, sql string, args ...any) (Rows, error) {
	return tx.conn.query(ctx, sql, args)
}

// Exec writes inside the transaction.
func (tx *Tx) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	return tx.conn.exec(ctx, sql, args)
}

// Dialect names the few differences between the databases.
func (tx *Tx) Dialect() Dialect { return tx.dialect }

// AfterCommit has fn called as soon as the transaction is committed, and not at all if it
// is not. The next transaction may wait for it, so it must return at once.
func (tx *Tx) AfterCommit(fn func()) { tx.after = append(tx.after, fn) }

func (tx *Tx) committed() {
	for _, fn := range tx.after {
		fn()
	}
}

// Stats counts connections, and what waits for one.
type Stats struct {
	Open, InUse, Max int
	// Waits is how often a statement or a transaction waited for a connection, and
	// Waited how long in total.
	Waits  int64
	Waited time.Duration
	// Writers is how many transactions wait now to write: to SQLite, which has one
	// writer, and in InGroup on PostgreSQL.
	Writers int
}
