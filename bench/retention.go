package main

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	retentionLimit = 1_000 // ms, for all rows of a table on PostgreSQL
	waitLimit      = 1_000 // ms, that somebody who writes waits meanwhile
	// unpartitionedSchema is the last one without partitions.
	unpartitionedSchema = 84
)

// benchRetention measures how long it takes until records are gone whose retention
// has ended, and how long others wait to write meanwhile. On PostgreSQL the records
// are from before the table had partitions, and get them first.
func benchRetention(ctx context.Context, l *lab) ([]row, error) {
	return l.onBoth(ctx, l.retentionOn)
}

func (l *lab) retentionOn(ctx context.Context, database string, fresh func() (string, error)) ([]row, error) {
	url, err := fresh()
	if err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, store.Options{URL: url, MaxConns: 4})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := db.MigrateTo(ctx, unpartitionedSchema); err != nil {
		return nil, err
	}
	size := readSize{"10 M", 10_000_000}
	if l.quick || database == "SQLite" {
		size = readSize{"1 M", 1_000_000}
	}
	if err := fillRecords(ctx, db, size.count); err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("retention: %s, %s records, ", database, size.name)
	var rows []row
	if database == "PostgreSQL" {
		// As if the upgrade was two days ago.
		if _, err := db.Exec(ctx, `UPDATE goose_db_version SET tstamp = tstamp - INTERVAL '2 days'`); err != nil {
			return nil, err
		}
		took, waited, err := whileWriting(ctx, db, func() error { return db.Partition(ctx) })
		if err != nil {
			return nil, err
		}
		rows = append(rows,
			row{Name: name + "partitioned in", Figure: took, Unit: "ms", Beside: limit, Other: waitLimit},
			row{Name: name + "longest write meanwhile", Figure: waited, Unit: "ms", Beside: limit, Other: waitLimit, AtMost: 1})
	}
	// The end of the partition that has them, which is at most 37 days ahead.
	end := time.Now().Add(38 * 24 * time.Hour)
	took, waited, err := whileWriting(ctx, db, func() error { return (&telemetry.Service{DB: db}).Expire(ctx, end) })
	if err != nil {
		return nil, err
	}
	deleted := row{Name: name + "deleted in", Figure: took, Unit: "ms", Beside: limit, Other: retentionLimit}
	if database == "PostgreSQL" {
		deleted.AtMost = 1
	}
	return append(rows, deleted,
		row{Name: name + "longest write meanwhile", Figure: waited, Unit: "ms", Beside: limit, Other: waitLimit, AtMost: 1}), nil
}

// fillRecords writes records of 1,000 people in 100 organisations, one each
// millisecond until an hour ago.
func fillRecords(ctx context.Context, db *store.DB, count int) error {
	end := store.Micros(time.Now().Add(-time.Hour))
	if db.Dialect().Name() == "postgres" {
		const chunk = 500_000
		for from := 0; from < count; from += chunk {
			if _, err := db.Exec(ctx, `
				INSERT INTO telemetry_records (id, org_id, user_id, kind, body, normalized_at, received_at)
				SELECT md5(i::TEXT), 'org' || i % 100, 'user' || i % 1000, 'execution_fact', '{"session_id":"' || i % 5000 || '"}', 0,
					$1 - i::BIGINT * 1000 FROM generate_series($2::BIGINT, $3) i`, end, from, from+chunk-1); err != nil {
				return err
			}
		}
		_, err := db.Exec(ctx, `VACUUM ANALYZE telemetry_records`) // as the server does in time
		return err
	}
	_, err := db.Exec(ctx, `
		WITH RECURSIVE numbers (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < $2)
		INSERT INTO telemetry_records (id, org_id, user_id, kind, body, normalized_at, received_at)
		SELECT hex(randomblob(16)), 'org' || i % 100, 'user' || i % 1000, 'execution_fact', '{"session_id":"' || i % 5000 || '"}', 0,
			$1 - i * 1000 FROM numbers`, end, count)
	return err
}

// whileWriting returns how long something takes, and the longest time that a record
// takes to be written meanwhile, in ms.
func whileWriting(ctx context.Context, db *store.DB, do func() error) (took, waited float64, err error) {
	ctx, stop := context.WithCancel(ctx)
	longest, failed := make(chan time.Duration, 1), make(chan error, 1)
	go func() {
		var most time.Duration
		for ctx.Err() == nil {
			began := time.Now()
			err := db.InGroup(ctx, func(tx *store.Tx) error {
				_, err := tx.Exec(ctx, `
					INSERT INTO telemetry_records (id, org_id, user_id, kind, body, normalized_at, received_at)
					VALUES ($1, 'org1', 'user1', 'k', '{}', 0, $2)`, newID(), store.Micros(began))
				return err
			})
			if err != nil && ctx.Err() == nil {
				failed <- err
				return
			}
			if most = max(most, time.Since(began)); ctx.Err() == nil {
				time.Sleep(2 * time.Millisecond)
			}
		}
		longest <- most
	}()
	began := time.Now()
	err = do()
	took = float64(time.Since(began).Milliseconds())
	stop()
	select {
	case most := <-longest:
		return took, float64(most.Milliseconds()), err
	case broken := <-failed:
		return took, 0, fmt.Errorf("write meanwhile: %w", broken)
	}
}
