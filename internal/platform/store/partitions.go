package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A partitioned table is one table on SQLite. On PostgreSQL it has a partition for
// each stretch of time, so that its retention drops tables instead of deleting rows.
//
// What is unique in such a table is so in each partition only, since PostgreSQL knows
// no index across partitions. So these are the tables whose ids are random, or whose
// writers hold a lock that keeps the same row from being written twice (see Bulk.Once).
// docs/operate.md says why the other large tables are not among them.
type partitioned struct {
	table  string
	column string // the time of a row
	key    string // what is unique
	width  time.Duration
}

const (
	day   = 24 * time.Hour
	month = 30 * day
)

// A lookup by id reads one index in each partition, so there are few of them: with
// the settings that are the default, at most seven of each table.
var partitionedTables = []partitioned{
	{"audit_entries", "at", "id", month},
	{"event_records", "occurred_at", "id", 10 * day},
	{"event_deliveries", "created_at", "id", 10 * day},
	{"telemetry_prompts", "received_at", "hash", month},
	{"telemetry_records", "received_at", "id", month},
}

const (
	// partitionsSince is the first binary that writes to partitions: those before ask
	// for a unique index of the whole table.
	partitionsSince = 85
	// settling is how long after an upgrade the tables stay as they are, in which one
	// can go back to the binary before.
	settling = day
	// ahead is how many partitions are made for times to come.
	ahead = 2
	// maxPartitions bounds the partitions of a table. Rows of times that have none are
	// in the default partition.
	maxPartitions = 120
	// maxMoves bounds the partitions that Partition makes of the default partition's
	// rows in one run.
	maxMoves = 12
	// partitionLock is the key of an advisory lock: "part" in ASCII.
	partitionLock = 0x70617274
)

// A partition is one of a table, from a time up to another, in microseconds.
type partition struct {
	name     string
	from, to int64
	fallback bool // the default partition, which has all times that no other one has
}

// beginning is the from of a partition that has no lower bound.
const beginning = -1 << 63

func partitionedTable(name string) (partitioned, bool) {
	i := slices.IndexFunc(partitionedTables, func(p partitioned) bool { return p.table == name })
	if i < 0 {
		return partitioned{}, false
	}
	return partitionedTables[i], true
}

// of is the partition that a time belongs to.
func (p partitioned) of(micros int64) partition {
	width := p.width.Microseconds()
	from := micros - (micros%width+width)%width
	name := fmt.Sprintf("%s_p%s", p.table, time.UnixMicro(from).UTC().Format("20060102"))
	return partition{name: name, from: from, to: from + width}
}

// legacy is the partition that was the whole table before, fallback the default one.
func (p partitioned) legacy() string   { return p.table + "_p0" }
func (p partitioned) fallback() string { return p.table + "_rest" }

// before is the check constraint that lets the old table become a partition at once.
func (p partitioned) before() string { return p.table + "_before" }

var boundary = regexp.MustCompile(`^FOR VALUES FROM \((?:MINVALUE|'(-?[0-9]+)')\) TO \('(-?[0-9]+)'\)$`)

// partitionsOf lists the partitions of a table by time, the default one last; none if
// the table is not partitioned yet.
func partitionsOf(ctx context.Context, q Querier, table string) ([]partition, error) {
	rows, err := q.Query(ctx, `
		SELECT c.relname::TEXT, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = to_regclass($1) AND c.relispartition ORDER BY c.relname::TEXT COLLATE "C"`, table)
	return All(rows, err, func(row Row) (p partition, err error) {
		var bounds string
		if err := row.Scan(&p.name, &bounds); err != nil {
			return p, err
		}
		if p.fallback = bounds == "DEFAULT"; p.fallback {
			return p, nil
		}
		m := boundary.FindStringSubmatch(bounds)
		if m == nil {
			return p, fmt.Errorf("partition %s has the bounds %s", p.name, bounds)
		}
		p.from = beginning
		if m[1] != "" {
			p.from, err = strconv.ParseInt(m[1], 10, 64)
		}
		if err == nil {
			p.to, err = strconv.ParseInt(m[2], 10, 64)
		}
		return p, err
	})
}

// Partition makes the partitions of the times to come, and partitions for rows that
// came before theirs was made. A table that has none yet gets them as soon as no
// binary is left that could not work with them. It may run at any time, and again
// after a crash. On SQLite it does nothing.
func (db *DB) Partition(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "partition tables")
	if !db.Dialect().postgres {
		return nil
	}
	now, err := db.clockMicros(ctx)
	if err != nil {
		return err
	}
	mayConvert, err := db.settled(ctx, now)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range partitionedTables {
		is, err := isPartitioned(ctx, db, p.table)
		switch {
		case err != nil:
		case is:
			err = db.makePartitions(ctx, p, now)
		case mayConvert:
			err = db.convert(ctx, p, now)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (db *DB) clockMicros(ctx context.Context) (int64, error) {
	now, err := db.Clock(ctx)
	return Micros(now), err
}

// settled reports whether the schema had this version for a while, and all processes
// that run are of a binary that works with partitions.
func (db *DB) settled(ctx context.Context, now int64) (bool, error) {
	rows, err := db.Query(ctx, `
		SELECT EXISTS (SELECT 1 FROM goose_db_version WHERE version_id = $1 AND is_applied
				AND tstamp < to_timestamp($2 / 1000000.0) AT TIME ZONE current_setting('TimeZone'))
			AND NOT EXISTS (SELECT 1 FROM job_workers WHERE schema_version < $1)`,
		partitionsSince, now-settling.Microseconds())
	return One(rows, err, "State", Value[bool])
}

func isPartitioned(ctx context.Context, q Querier, table string) (bool, error) {
	rows, err := q.Query(ctx, `SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass($1) AND relkind = 'p'`, table)
	n, err := One(rows, err, "Count", Value[int64])
	return n > 0, err
}

// partitionNew partitions the tables of a database that was just created. Of an older
// one it takes back what a conversion has left that was given up.
func (db *DB) partitionNew(ctx context.Context, created bool) (err error) {
	defer fault.Wrap(&err, "partition tables")
	now, err := db.clockMicros(ctx)
	if err != nil {
		return err
	}
	for _, p := range partitionedTables {
		if is, err := isPartitioned(ctx, db, p.table); err != nil {
			return err
		} else if is {
			continue
		}
		if !created {
			if err := db.giveUp(ctx, p, now+day.Microseconds()); err != nil {
				return err
			}
			continue
		}
		if err := db.ddl(ctx, func(tx *Tx) error { return p.replace(ctx, tx, nil) }); err != nil {
			return err
		}
		if err := db.makePartitions(ctx, p, now); err != nil {
			return err
		}
	}
	return nil
}

// lockNotAvailable is the SQLSTATE of a statement that waited too long for a lock.
const lockNotAvailable = "55P03"

func isLockTimeout(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == lockNotAvailable
}

// ddl runs a transaction that changes partitions. It waits a moment only for others
// that use the table, since all that come after wait for it, too: then it lets them
// pass, and tries again.
func (db *DB) ddl(ctx context.Context, fn func(tx *Tx) error) (err error) {
	for range 5 {
		err = db.InTx(ctx, func(tx *Tx) error {
			if err := execAll(ctx, tx, `SET LOCAL lock_timeout = '500ms'`,
				fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, partitionLock)); err != nil {
				return err
			}
			return fn(tx)
		})
		if !isLockTimeout(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockRetry):
		}
	}
	return err
}

// convert makes the table a partition of a new one of its name. No row is copied: a
// check constraint, which is validated while others write, says that all rows are
// before a time, so that PostgreSQL need not look at them under a lock.
func (db *DB) convert(ctx context.Context, p partitioned, now int64) error {
	// Binaries from before partitions no longer work with the schema.
	_, err := db.Exec(ctx, `UPDATE schema_compat SET oldest = $1 WHERE oldest < $1 AND version >= $1`, partitionsSince)
	if err != nil {
		return err
	}
	end, err := db.constrain(ctx, p, now)
	if err != nil {
		return err
	}
	err = db.LoadOnce(ctx, func(tx *Tx) error { // without a timeout
		_, err := tx.Exec(ctx, fmt.Sprintf(`ALTER TABLE %s VALIDATE CONSTRAINT %s`, p.table, p.before()))
		return err
	})
	if err != nil {
		return err
	}
	if err := db.ddl(ctx, func(tx *Tx) error { return p.replace(ctx, tx, &end) }); err != nil {
		return err
	}
	return db.makePartitions(ctx, p, now)
}

// constrain adds the check constraint and returns its time. That is at least a week
// ahead: until then nothing that is written violates it, even if this process ends
// before the table is converted.
func (db *DB) constrain(ctx context.Context, p partitioned, now int64) (end int64, err error) {
	if err := db.giveUp(ctx, p, 1<<62); err != nil {
		return 0, err
	}
	rows, err := db.Query(ctx, fmt.Sprintf(`SELECT COALESCE(MAX(%s), 0) FROM %s`, p.column, p.table))
	newest, err := One(rows, err, "Time", Value[int64])
	if err != nil {
		return 0, err
	}
	end = p.of(max(now+7*day.Microseconds(), newest)).to
	return end, db.ddl(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(`ALTER TABLE %s ADD CONSTRAINT %s CHECK (%s < %d) NOT VALID`,
			p.table, p.before(), p.column, end))
		return err
	})
}

// giveUp removes the check constraint of an earlier try if its time is before another.
func (db *DB) giveUp(ctx context.Context, p partitioned, before int64) error {
	rows, err := db.Query(ctx, `
		SELECT substring(pg_get_constraintdef(oid) FROM '< ''?([0-9]+)')::BIGINT FROM pg_constraint
		WHERE conrelid = to_regclass($1) AND conname = $2`, p.table, p.before())
	ends, err := All(rows, err, Value[int64])
	if err != nil || len(ends) == 0 || ends[0] >= before {
		return err
	}
	return db.ddl(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(`ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s`, p.table, p.before()))
		return err
	})
}

// replace makes the table, up to a time, the first partition of a new one with the
// same columns, indexes and foreign keys. Without a time the table is empty, and goes.
func (p partitioned) replace(ctx context.Context, tx *Tx, end *int64) error {
	if is, err := isPartitioned(ctx, tx, p.table); err != nil || is {
		return err // another process was faster
	}
	if _, err := tx.Exec(ctx, `LOCK TABLE `+p.table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `
		SELECT c.relname::TEXT, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid = to_regclass($1) AND NOT i.indisprimary ORDER BY 1`, p.table)
	indexes, err := All(rows, err, scanPair)
	if err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `
		SELECT conname::TEXT, pg_get_constraintdef(oid) FROM pg_constraint
		WHERE conrelid = to_regclass($1) AND contype = 'f' ORDER BY 1`, p.table)
	foreign, err := All(rows, err, scanPair)
	if err != nil {
		return err
	}
	statements := []string{fmt.Sprintf(`ALTER TABLE %s RENAME TO %s`, p.table, p.legacy())}
	for _, index := range indexes {
		statements = append(statements, fmt.Sprintf(`ALTER INDEX %s RENAME TO %s_p0`, index[0], index[0]))
	}
	statements = append(statements, fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS) PARTITION BY RANGE (%s)`,
		p.table, p.legacy(), p.column))
	for _, index := range indexes {
		statements = append(statements, index[1])
	}
	for _, constraint := range foreign {
		statements = append(statements, fmt.Sprintf(`ALTER TABLE %s ADD CONSTRAINT %s %s`, p.table, constraint[0], constraint[1]))
	}
	if end == nil {
		statements = append(statements, `DROP TABLE `+p.legacy())
	} else {
		statements = append(statements,
			fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (MINVALUE) TO (%d)`, p.table, p.legacy(), *end))
	}
	statements = append(statements,
		fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS, PRIMARY KEY (%s))`, p.fallback(), p.table, p.key),
		fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s DEFAULT`, p.table, p.fallback()))
	return execAll(ctx, tx, statements...)
}

func scanPair(row Row) (pair [2]string, err error) {
	err = row.Scan(&pair[0], &pair[1])
	return pair, err
}

// makePartitions makes those of the times to come, and of rows in the default
// partition whose time is not further ahead: it is their turn, or they were restored.
func (db *DB) makePartitions(ctx context.Context, p partitioned, now int64) error {
	width := p.width.Microseconds()
	for i := int64(-1); i <= ahead; i++ {
		if err := db.makePartition(ctx, p, p.of(now+i*width)); err != nil {
			return err
		}
	}
	for range maxMoves {
		rows, err := db.Query(ctx, fmt.Sprintf(`SELECT MIN(%s) FROM %s WHERE %s < $1`, p.column, p.fallback(), p.column),
			p.of(now).to)
		oldest, err := One(rows, err, "Time", Value[*int64])
		if err != nil || oldest == nil {
			return err
		}
		all, err := partitionsOf(ctx, db, p.table)
		if err != nil || len(all) >= maxPartitions {
			return err
		}
		if err := db.makePartition(ctx, p, p.of(*oldest)); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) makePartition(ctx context.Context, p partitioned, fresh partition) error {
	if there, err := p.overlaps(ctx, db, fresh); err != nil || there {
		return err
	}
	return db.ddl(ctx, func(tx *Tx) error { return p.make(ctx, tx, fresh) })
}

// overlaps reports whether there is a partition for a part of the time.
func (p partitioned) overlaps(ctx context.Context, q Querier, fresh partition) (bool, error) {
	all, err := partitionsOf(ctx, q, p.table)
	return slices.ContainsFunc(all, func(known partition) bool {
		return !known.fallback && known.from < fresh.to && fresh.from < known.to
	}), err
}

// make makes a partition unless it is there, with the rows of its time that the default
// partition has. It locks the parent before that one, as queries do: a query that waited for
// the default partition only would be planned already, and find those rows in none.
func (p partitioned) make(ctx context.Context, tx *Tx, fresh partition) error {
	if there, err := p.overlaps(ctx, tx, fresh); err != nil || there {
		return err
	}
	within := fmt.Sprintf(`%s >= %d AND %s < %d`, p.column, fresh.from, p.column, fresh.to)
	return execAll(ctx, tx,
		fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS, PRIMARY KEY (%s))`, fresh.name, p.table, p.key),
		fmt.Sprintf(`LOCK TABLE ONLY %s, %s IN ACCESS EXCLUSIVE MODE`, p.table, p.fallback()),
		fmt.Sprintf(`WITH moved AS (DELETE FROM %s WHERE %s RETURNING *) INSERT INTO %s SELECT * FROM moved`,
			p.fallback(), within, fresh.name),
		fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%d) TO (%d)`, p.table, fresh.name, fresh.from, fresh.to))
}

func execAll(ctx context.Context, tx *Tx, statements ...string) error {
	for _, text := range statements {
		if _, err := tx.Exec(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// makeFor makes the partitions of rows of the past that are about to be loaded.
func (p partitioned) makeFor(ctx context.Context, tx *Tx, t Table, rows [][]any) error {
	if is, err := isPartitioned(ctx, tx, p.table); err != nil || !is {
		return err
	}
	all, err := partitionsOf(ctx, tx, p.table)
	if err != nil {
		return err
	}
	count, column, newest := len(all), slices.Index(t.Columns, p.column), p.of(Micros(time.Now()))
	made := map[int64]bool{}
	for _, row := range rows {
		at, ok := row[column].(int64)
		if fresh := p.of(at); ok && !made[fresh.from] && fresh.from <= newest.from && count+len(made) < maxPartitions {
			if err := p.make(ctx, tx, fresh); err != nil {
				return err
			}
			made[fresh.from] = true
		}
	}
	return nil
}

// An Expiry deletes the rows of a partitioned table that are older than a time: whole
// partitions at once, and the rest in small transactions, so that nothing else waits.
type Expiry struct {
	Table  string
	Before time.Time
	// Orgs returns the organisations with rows in a partition. It is asked before one
	// is dropped, if there is a Note.
	Orgs func(ctx context.Context, q Querier, partition string) ([]string, error)
	// Note, if not nil, is called in each transaction that deletes rows, with the
	// organisations that they are of.
	Note func(ctx context.Context, tx *Tx, orgIDs []string) error
	// Committed, if not nil, is called after such a transaction.
	Committed func()
}

// bite is how many rows one transaction deletes.
const bite = 1000

// Run deletes the rows. It may run twice.
func (e Expiry) Run(ctx context.Context, db *DB) (err error) {
	defer fault.Wrap(&err, "expire rows of %s", e.Table)
	p, ok := partitionedTable(e.Table)
	if !ok {
		return fmt.Errorf("%s is not a partitioned table", e.Table)
	}
	from, cutoff := int64(beginning), Micros(e.Before)
	if db.Dialect().postgres {
		all, err := partitionsOf(ctx, db, p.table)
		if err != nil {
			return err
		}
		for _, old := range all {
			if old.fallback || old.to > cutoff {
				continue
			}
			if err := e.drop(ctx, db, p, old); isLockTimeout(err) {
				from = old.to // others use the table for long, such as a backup: it goes next time
			} else if err != nil {
				return err
			}
		}
	}
	for more := true; more; {
		err := db.InTx(ctx, func(tx *Tx) error {
			orgs, err := tx.deleteSome(ctx, p.table, bite, p.column+" < $1 AND "+p.column+" >= $2", "org_id", cutoff, from)
			more = len(orgs) >= bite
			return e.note(ctx, tx, orgs, err)
		})
		if err != nil {
			return err
		}
		e.committed()
	}
	return nil
}

func (e Expiry) note(ctx context.Context, tx *Tx, orgs []string, err error) error {
	slices.Sort(orgs)
	orgs = slices.Compact(orgs)
	if err != nil || e.Note == nil || len(orgs) == 0 {
		return err
	}
	return e.Note(ctx, tx, orgs)
}

// drop drops a partition whose rows have all expired.
func (e Expiry) drop(ctx context.Context, db *DB, p partitioned, old partition) error {
	var orgs []string
	if e.Note != nil {
		var err error
		if orgs, err = e.Orgs(ctx, db, old.name); err != nil {
			return err
		}
	}
	err := db.ddl(ctx, func(tx *Tx) error {
		// What uses the table locks it before its partitions.
		if _, err := tx.Exec(ctx, `LOCK TABLE ONLY `+p.table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DROP TABLE IF EXISTS `+old.name); err != nil {
			return err
		}
		return e.note(ctx, tx, orgs, nil)
	})
	if err == nil {
		e.committed()
	}
	return err
}

func (e Expiry) committed() {
	if e.Committed != nil {
		e.Committed()
	}
}

// CheckPartitions counts the partitions of all tables of PostgreSQL, and says which tables
// the job that calls Partition should have seen to.
func (db *DB) CheckPartitions(ctx context.Context) (count int, problems []string, err error) {
	defer fault.Wrap(&err, "check partitions")
	now, err := db.clockMicros(ctx)
	if err != nil {
		return 0, nil, err
	}
	settled, err := db.settled(ctx, now)
	if err != nil {
		return 0, nil, err
	}
	for _, p := range partitionedTables {
		all, err := partitionsOf(ctx, db, p.table)
		if err != nil {
			return 0, nil, err
		}
		if count += len(all); len(all) == 0 {
			if settled {
				problems = append(problems, p.table+" has none yet")
			}
			continue
		}
		if there, err := p.overlaps(ctx, db, p.of(now)); err != nil {
			return 0, nil, err
		} else if !there {
			problems = append(problems, p.table+" has none for this time")
		}
		rows, err := db.Query(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT 1 FROM %s WHERE %s < $1)`, p.fallback(), p.column),
			p.of(now).to)
		if late, err := One(rows, err, "Row", Value[bool]); err != nil {
			return 0, nil, err
		} else if late {
			problems = append(problems, p.fallback()+" has rows that belong into another")
		}
	}
	return count, problems, nil
}
