package store

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// Snapshot calls fn with a read-only transaction that sees the database as of
// one moment, while others go on writing.
func (db *DB) Snapshot(ctx context.Context, fn func(tx *Tx) error) (err error) {
	defer fault.Wrap(&err, "snapshot")
	return db.engine.snapshot(ctx, fn)
}

// LoadOnce calls fn with a transaction that may take hours and commits it if fn
// returns nil. It is for restoring into an empty database. Unlike InTx it never
// calls fn twice, and SQLite checks foreign keys only at the commit.
func (db *DB) LoadOnce(ctx context.Context, fn func(tx *Tx) error) (err error) {
	defer fault.Wrap(&err, "load")
	db.writes(ctx)
	return db.engine.loadOnce(ctx, fn)
}

// snapshot holds one of the reading connections. Until it ends, the WAL cannot
// be checkpointed beyond its moment.
func (e *sqliteEngine) snapshot(ctx context.Context, fn func(*Tx) error) error {
	c, err := e.readers.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() { _, _ = c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }()
	// The snapshot is taken at the first read.
	if err := c.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master").Scan(new(int)); err != nil {
		return err
	}
	return fn(&Tx{conn: readingConn{c}})
}

func (e *sqliteEngine) loadOnce(ctx context.Context, fn func(*Tx) error) error {
	return e.inTx(ctx, func(tx *Tx) error {
		if _, err := tx.Exec(ctx, "PRAGMA defer_foreign_keys = ON"); err != nil {
			return err
		}
		return fn(tx)
	})
}

// readingConn is a connection that is returned to the pool, so it has no cache of
// prepared statements. Its statements end with their context.
type readingConn struct{ conn *sql.Conn }

func (c readingConn) query(ctx context.Context, text string, args []any) (Rows, error) {
	rows, err := c.conn.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return &closingRows{Rows: rows, ctx: ctx}, nil
}

func (c readingConn) exec(ctx context.Context, text string, args []any) (int64, error) {
	result, err := c.conn.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (e *postgresEngine) snapshot(ctx context.Context, fn func(*Tx) error) error {
	return e.longTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
}

func (e *postgresEngine) loadOnce(ctx context.Context, fn func(*Tx) error) error {
	return e.longTx(ctx, pgx.TxOptions{}, fn)
}

// longTx runs a transaction without the server's timeouts.
func (e *postgresEngine) longTx(ctx context.Context, o pgx.TxOptions, fn func(*Tx) error) error {
	tx := &Tx{dialect: e.dialect()}
	err := pgx.BeginTxFunc(ctx, e.pool, o, func(t pgx.Tx) error {
		for _, setting := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
			if _, err := t.Exec(ctx, "SET LOCAL "+setting+" = 0"); err != nil {
				return err
			}
		}
		// The snapshot is taken at the first read.
		if _, err := t.Exec(ctx, "SELECT 1"); err != nil {
			return err
		}
		tx.conn = postgresConn{t}
		return fn(tx)
	})
	if err == nil {
		tx.committed()
	}
	return unavailable(err)
}
