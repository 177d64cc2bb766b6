package store

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// Migrate migrates the schema to this binary's version. Processes that start at
// the same time wait for each other. It does nothing to a schema of that version;
// for a newer one it fails if CheckSchema does.
func (db *DB) Migrate(ctx context.Context) error { return db.MigrateTo(ctx, Newest()) }

// MigrateTo is Migrate up to an older version, to restore a backup of that
// version.
func (db *DB) MigrateTo(ctx context.Context, version int64) (err error) {
	defer fault.Wrap(&err, "migrate")
	return db.engine.migrate(ctx, version)
}

// Pending reports whether the schema is older than this binary.
func (db *DB) Pending(ctx context.Context) (bool, error) { return db.engine.pending(ctx) }

// A migration is one call of Migrate that holds the lock.
type migration struct {
	db *DB
	to int64
}

func (m migration) run(ctx context.Context, dialect goose.Dialect, conns *sql.DB) error {
	if err := m.db.CheckSchema(ctx); err != nil {
		return err
	}
	var known int64 // the version of the schema before
	err := m.db.Snapshot(ctx, func(tx *Tx) (err error) {
		known, err = tx.SchemaVersion(ctx)
		return err
	})
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialect, conns, Migrations(m.db.Dialect().Name()))
	if err != nil {
		return err
	}
	if err := up(ctx, provider, m.to); err != nil {
		return err
	}
	if m.db.Dialect().postgres && m.to >= partitionsSince {
		if err := m.db.partitionNew(ctx, known == 0); err != nil {
			return err
		}
	}
	return m.db.noteOldest(ctx, m.to)
}

// maxMigrationTries bounds how often a migration is tried that PostgreSQL aborts.
const maxMigrationTries = 10

// up migrates, each file in its own transaction. A running server and a migration may wait
// for each other's locks: PostgreSQL aborts one of the two, and the migration is tried again.
func up(ctx context.Context, provider *goose.Provider, to int64) error {
	for try := 1; ; try++ {
		_, err := provider.UpTo(ctx, to)
		if err == nil || try == maxMigrationTries || !failedWith(err, deadlockDetected, serializationFailure) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(try) * lockRetry):
		}
	}
}

func hasPending(ctx context.Context, dialect goose.Dialect, db *sql.DB, files fs.FS) (bool, error) {
	provider, err := goose.NewProvider(dialect, db, files)
	if err != nil {
		return false, err
	}
	return provider.HasPending(ctx)
}

// migrate holds the lock in a second database beside ours: an exclusive
// transaction works on every system and ends with its process.
func (e *sqliteEngine) migrate(ctx context.Context, to int64) error {
	if err := makePrivate(e.path + ".lock"); err != nil {
		return unwritable(e.path, err)
	}
	lock, err := sql.Open("sqlite", sqliteDSN(e.path+".lock", 100))
	if err != nil {
		return err
	}
	defer lock.Close()
	held, err := connect(ctx, lock)
	if err != nil {
		return unwritable(e.path, err)
	}
	defer held.Close()
	if _, err := held.ExecContext(ctx, "PRAGMA busy_timeout = 60000; BEGIN EXCLUSIVE"); err != nil {
		return fmt.Errorf("wait for another migration: %w", unwritable(e.path, err))
	}
	db, err := sql.Open("sqlite", sqliteDSN(e.path, 8_000))
	if err != nil {
		return err
	}
	defer db.Close()
	if err := createSchema(ctx, db, to); err != nil {
		return unwritable(e.path, err)
	}
	return unwritable(e.path, migration{&DB{engine: e}, to}.run(ctx, goose.DialectSQLite3, db))
}

// createSchema makes the newest schema in an empty database that shall have it.
func createSchema(ctx context.Context, db *sql.DB, to int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing is left of it if it was not committed
	var tables int
	err = tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master").Scan(&tables)
	if err != nil || tables > 0 || to < Newest() {
		return err
	}
	if _, err := tx.ExecContext(ctx, sqliteSchema); err != nil {
		return err
	}
	return tx.Commit()
}

func (e *sqliteEngine) pending(ctx context.Context) (bool, error) {
	return hasPending(ctx, goose.DialectSQLite3, e.readers, Migrations(e.dialect().Name()))
}

// migrationLock is the key of an advisory lock: "whet" in ASCII.
const migrationLock = 0x77686574

// lockRetry is how often a process asks for the lock that another one holds.
const lockRetry = 100 * time.Millisecond

// migrate waits for its turn. It asks again and again instead of waiting in the
// database: behind a pooler, those who wait would hold all the connections that the
// one who migrates needs.
func (e *postgresEngine) migrate(ctx context.Context, to int64) error {
	for {
		locked, err := e.migrateLocked(ctx, to)
		if locked || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another migration: %w", ctx.Err())
		case <-time.After(lockRetry):
		}
	}
}

// migrateLocked migrates unless another process does. It holds the lock in a
// transaction that does nothing else: a lock of the session would be lost with a
// pooler, and be held for ever by a connection that it keeps.
func (e *postgresEngine) migrateLocked(ctx context.Context, to int64) (locked bool, err error) {
	err = pgx.BeginFunc(ctx, e.pool, func(lock pgx.Tx) error {
		if err := lock.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", migrationLock).Scan(&locked); err != nil || !locked {
			return err
		}
		if _, err := lock.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
			return err
		}
		db := stdlib.OpenDBFromPool(e.pool)
		defer db.Close()
		return migration{&DB{engine: e}, to}.run(ctx, goose.DialectPostgres, db)
	})
	return locked, err
}

func (e *postgresEngine) pending(ctx context.Context) (bool, error) {
	db := stdlib.OpenDBFromPool(e.pool)
	defer db.Close()
	return hasPending(ctx, goose.DialectPostgres, db, Migrations(e.dialect().Name()))
}
