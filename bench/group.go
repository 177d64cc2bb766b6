package main

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // the peer is the driver itself

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	groupWriters = 256
	batch        = 100 // rows in one of the driver's transactions

	// benchTable is like most of the service's: a UUID, an organisation, a time.
	benchTable = `
		CREATE TABLE bench_rows (
			id         TEXT PRIMARY KEY,
			org_id     TEXT NOT NULL,
			name       TEXT NOT NULL,
			value      REAL NOT NULL,
			created_at INTEGER NOT NULL
		) STRICT`
	benchInsert = `INSERT INTO bench_rows (id, org_id, name, value, created_at) VALUES ($1, $2, $3, $4, $5)`
)

// benchGroup measures rows a second of single-row writes, each durable when it
// returns, beside the batches that somebody would write who has all rows at
// hand.
func benchGroup(ctx context.Context, l *lab) ([]row, error) {
	rows := make([][]any, 20_000)
	for i := range rows {
		rows[i] = []any{newID(), newID(), "pdf-tables", float64(i) / 3, int64(i)}
	}
	var ours, driver []float64
	for range l.rounds() {
		dir, err := l.folder("group")
		if err != nil {
			return nil, err
		}
		grouped, err := timeGrouped(ctx, filepath.Join(dir, "grouped.db"), rows)
		if err != nil {
			return nil, err
		}
		batched, err := timeBatched(ctx, filepath.Join(dir, "batched.db"), rows)
		if err != nil {
			return nil, err
		}
		ours = append(ours, float64(len(rows))/grouped.Seconds())
		driver = append(driver, float64(len(rows))/batched.Seconds())
	}
	return []row{{
		Name: "sqlite-group: single rows", Figure: slices.Max(ours), Unit: "rows/s",
		Beside: "driver, batches of 100", Other: slices.Max(driver), AtLeast: 0.6,
	}}, nil
}

func timeGrouped(ctx context.Context, path string, rows [][]any) (time.Duration, error) {
	db, err := store.Open(ctx, store.Options{URL: "sqlite:" + path})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	if _, err := db.Exec(ctx, benchTable); err != nil {
		return 0, err
	}
	start := time.Now()
	var g errgroup.Group
	for writer := range groupWriters {
		g.Go(func() error {
			for i := writer; i < len(rows); i += groupWriters {
				err := db.InGroup(ctx, func(tx *store.Tx) error {
					_, err := tx.Exec(ctx, benchInsert, rows[i]...)
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	return time.Since(start), err
}

func timeBatched(ctx context.Context, path string, rows [][]any) (time.Duration, error) {
	db, err := sql.Open("sqlite", driverDSN(path))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, benchTable); err != nil {
		return 0, err
	}
	insert, err := db.PrepareContext(ctx, benchInsert)
	if err != nil {
		return 0, err
	}
	defer insert.Close()
	start := time.Now()
	for some := range slices.Chunk(rows, batch) {
		if err := insertBatch(ctx, db, insert, some); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

func insertBatch(ctx context.Context, db *sql.DB, insert *sql.Stmt, rows [][]any) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	in := tx.StmtContext(ctx, insert)
	defer in.Close()
	for _, row := range rows {
		if _, err := in.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// driverDSN sets the same pragmas as the store.
func driverDSN(path string) string {
	query := url.Values{"_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
	}, "_txlock": {"immediate"}}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}).String()
}
