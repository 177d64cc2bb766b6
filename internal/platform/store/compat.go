package store

import (
	"context"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

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

// raiseOldest stores that binaries from before partitions no longer work with the
// schema.
func (db *DB) raiseOldest(ctx context.Context) error {
	_, err := db.Exec(ctx, `UPDATE schema_compat SET oldest = $1 WHERE oldest < $1 AND version >= $1`, partitionsSince)
	return err
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
