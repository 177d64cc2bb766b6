package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"modernc.org/sqlite"

	"github.com/whetstone-dev/whetstone/internal/base/fair"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// sqliteEngine has one connection that writes and several that read.
// Write-ahead logging (WAL) lets readers go on while it writes.
type sqliteEngine struct {
	path    string
	file    os.FileInfo // of path, when it was opened
	writers *sql.DB
	readers *sql.DB
	writer  *sqliteConn   // the one connection of writers
	turn    chan struct{} // a mutex for writer that a context can interrupt: holds one token
	closed  chan struct{}
	watch   *Statements

	closeOnce func() error
	group     fair.GroupCommit[struct{}, func(*Tx) error]

	waiting atomic.Int64 // transactions that wait for their turn
	waits   atomic.Int64 // all that ever did
	waited  atomic.Int64 // for how many nanoseconds

	mu         sync.Mutex
	statements map[string]*sql.Stmt // of readers
}

// maxStatements bounds the cache of prepared statements of each connection.
// Statements are constants in the code, so in practice it is never reached.
const maxStatements = 1000

const defaultReaders = 8

// MaxCache is what the page caches of SQLite take at most, in bytes. SQLite counts half of
// it: the allocator of the driver rounds a page with its header up to 8 KiB.
const MaxCache = 192 << 20

func openSQLite(ctx context.Context, path string, o Options) (_ *sqliteEngine, err error) {
	defer func() { err = unwritable(path, err) }()
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	maxConns := cmp.Or(o.MaxConns, defaultReaders)
	e := &sqliteEngine{
		path: path, watch: o.Watch, turn: make(chan struct{}, 1), closed: make(chan struct{}),
		statements: map[string]*sql.Stmt{},
	}
	e.group.Commit, e.group.MaxSize, e.group.MaxWaiting = e.commitGroup, maxGroup, maxWaiting
	e.closeOnce = sync.OnceValue(e.closeAll)
	// The writer has a third of the caches (32 MiB): a transaction that changes many
	// pages keeps them in memory. And the WAL is checkpointed every 8,000 pages instead
	// of 1,000: a commit is durable when it is in the WAL.
	third := cmp.Or(o.CacheMemory, MaxCache) / 2 / 3 >> 10 // in KiB, as SQLite counts it
	dsn := sqliteDSN(path, third, "wal_autocheckpoint(8000)")
	if e.writers, err = sql.Open("sqlite", dsn); err != nil {
		return nil, err
	}
	e.writers.SetMaxOpenConns(1)
	c, err := connect(ctx, e.writers)
	if err != nil {
		return nil, err
	}
	e.writer = &sqliteConn{conn: c, watch: o.Watch, statements: map[string]*sql.Stmt{}}
	if e.readers, err = sql.Open("sqlite", sqliteDSN(path, 2*third/int64(maxConns), "query_only(ON)")); err != nil {
		return nil, err
	}
	e.readers.SetMaxOpenConns(maxConns)
	e.readers.SetMaxIdleConns(maxConns)
	e.turn <- struct{}{}
	if err := e.readers.PingContext(ctx); err != nil {
		return nil, err
	}
	e.file, err = os.Stat(path)
	return e, err
}

// connect opens a connection. When several processes make a new file a WAL database
// at the same moment, SQLite refuses all but one of them without waiting for the
// busy timeout.
func connect(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	for deadline := time.Now().Add(10 * time.Second); ; {
		c, err := db.Conn(ctx)
		e, ok := errors.AsType[*sqlite.Error](err)
		if !ok || e.Code()&0xff != sqliteBusy || time.Now().After(deadline) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// makePrivate creates a database file that only its owner can read, whatever
// the umask. SQLite gives the WAL and the other files beside it the same mode. An
// existing file is not changed.
func makePrivate(path string) error {
	// An existing file is not opened: closing it would release the POSIX locks
	// that SQLite holds on it in this process.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// unwritable explains why a database cannot be opened for writing, where the
// driver only reports a code.
func unwritable(path string, err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	refused := ok && (e.Code()&0xff == sqliteReadOnly || e.Code()&0xff == sqliteCantOpen)
	switch {
	case err == nil:
		return nil
	case refused, errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.New(fault.Unavailable, "the database %s cannot be written by this user: "+
			"give the file and its folder to the user that runs Whetstone, "+
			"and see that they are not on a read-only file system", path).Because(err)
	}
	return full(fault.Disk(err))
}

// sqliteDSN sets synchronous=FULL, so that every commit is fsynced and survives
// a power cut, and a busy timeout, because the command line may write while the
// server runs. No pragma may be there twice: the driver sorts them.
func sqliteDSN(path string, cacheKiB int64, pragmas ...string) string {
	query := url.Values{"_pragma": append([]string{
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
		fmt.Sprintf("cache_size(-%d)", cacheKiB),
	}, pragmas...)}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}).String()
}

func (e *sqliteEngine) query(ctx context.Context, text string, args []any) (Rows, error) {
	stmt, err := e.statement(ctx, text)
	if err != nil {
		return nil, full(err)
	}
	rows, err := sqlRows(ctx, e.watch.Start(ctx, text), stmt, args)
	return rows, full(err)
}

func (e *sqliteEngine) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if stmt, ok := e.statements[text]; ok {
		return stmt, nil
	}
	stmt, err := e.readers.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if len(e.statements) < maxStatements {
		e.statements[text] = stmt
	}
	return stmt, nil
}

func (e *sqliteEngine) exec(ctx context.Context, text string, args []any) (n int64, err error) {
	err = e.inTx(ctx, func(tx *Tx) error {
		n, err = tx.Exec(ctx, text, args...)
		return err
	})
	return n, err
}

func (e *sqliteEngine) inTx(ctx context.Context, fn func(*Tx) error) error {
	if err := e.await(ctx); err != nil {
		return err
	}
	defer func() { e.turn <- struct{}{} }()
	return full(e.writer.inTx(ctx, fn))
}

// await waits for the turn to write.
func (e *sqliteEngine) await(ctx context.Context) error {
	select {
	case <-e.turn: // usually at once
		return nil
	default:
	}
	started := time.Now()
	e.waiting.Add(1)
	e.waits.Add(1)
	defer func() {
		e.waiting.Add(-1)
		e.waited.Add(int64(time.Since(started)))
	}()
	select {
	case <-e.turn:
		return nil
	case <-e.closed:
		return sql.ErrConnDone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SQLite's result codes; the lower eight bits are the kind.
const (
	sqliteBusy     = 5
	sqliteReadOnly = 8
	sqliteIOError  = 10
	sqliteFull     = 13
	sqliteCantOpen = 14
)

// full turns the errors of a full disk into Unavailable: the caller can retry
// when there is room again.
func full(err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok || e.Code()&0xff != sqliteFull && e.Code()&0xff != sqliteIOError {
		return err
	}
	return fault.New(fault.Unavailable, "The database cannot be written now; is the disk full?").
		After(10 * time.Second).Because(err)
}

const (
	maxGroup   = 512   // calls in one commit
	maxWaiting = 8_192 // calls that wait; more are refused
)

func (e *sqliteEngine) inGroup(ctx context.Context, fn func(*Tx) error) error {
	return overloaded(e.group.Do(ctx, struct{}{}, fn))
}

// overloaded turns fair.ErrFull into Unavailable: the caller can retry.
func overloaded(err error) error {
	if errors.Is(err, fair.ErrFull) {
		return fault.New(fault.Unavailable, "The database cannot keep up; try again").After(time.Second)
	}
	return err
}

// A groupCall is a call of InGroup.
type groupCall = fair.GroupCall[func(*Tx) error]

// commitGroup runs several functions in one transaction. If one fails, the
// transaction is rolled back and each function runs again in a transaction of
// its own. Failures are rare, and one caller's failure must not become the
// others'.
func (e *sqliteEngine) commitGroup(_ struct{}, calls []*groupCall) {
	if len(calls) > 1 {
		err := e.inTx(context.Background(), func(tx *Tx) error {
			for _, c := range calls {
				if err := runCall(c, tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			for _, c := range calls {
				c.Answer(nil)
			}
			return
		}
	}
	for _, c := range calls {
		c.Answer(e.inTx(c.Ctx, func(tx *Tx) error { return runCall(c, tx) }))
	}
}

// runCall calls the function unless its caller's context has ended. A panic
// becomes the caller's error: the function runs on the goroutine of another
// caller, which must survive it.
func runCall(c *groupCall, tx *Tx) (err error) {
	if err := c.Ctx.Err(); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a grouped transaction: %v", p)
		}
	}()
	return c.Value(tx)
}

// ping also fails if the file was deleted or replaced: open connections would
// go on writing to the old one.
func (e *sqliteEngine) ping(ctx context.Context) error {
	if now, err := os.Stat(e.path); err != nil || !os.SameFile(now, e.file) {
		return fmt.Errorf("the database file %s was removed or replaced", e.path)
	}
	return e.readers.PingContext(ctx)
}

func (e *sqliteEngine) dialect() Dialect { return Dialect{} }

func (e *sqliteEngine) stats() Stats {
	r, w := e.readers.Stats(), e.writers.Stats()
	return Stats{
		Open: r.OpenConnections + w.OpenConnections, InUse: r.InUse + 1 - len(e.turn), Max: r.MaxOpenConnections + 1,
		Waits: r.WaitCount + e.waits.Load(), Waited: r.WaitDuration + time.Duration(e.waited.Load()),
		Writers: int(e.waiting.Load()) + e.group.Waiting(),
	}
}

// close waits for the running transaction; those that wait for their turn fail.
// Closing twice is not an error.
func (e *sqliteEngine) close() error { return e.closeOnce() }

// closeAll checkpoints the WAL into the database file, so that a copy of that
// file alone is complete. It does not wait for other processes: while one of
// them reads, the WAL stays, as durable as before.
func (e *sqliteEngine) closeAll() error {
	<-e.turn
	close(e.closed)
	err := e.readers.Close()
	for _, pragma := range []string{"PRAGMA busy_timeout = 0", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		_, _ = e.writer.conn.ExecContext(context.Background(), pragma)
	}
	return errors.Join(err, e.writer.conn.Close(), e.writers.Close())
}

// sqliteConn is a single connection with a cache of prepared statements.
type sqliteConn struct {
	conn       *sql.Conn
	watch      *Statements
	statements map[string]*sql.Stmt
}

func (c *sqliteConn) inTx(ctx context.Context, fn func(*Tx) error) (err error) {
	if _, err := c.exec(ctx, "BEGIN IMMEDIATE", nil); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committed := false
	defer func() {
		if !committed {
			_, _ = c.exec(context.WithoutCancel(ctx), "ROLLBACK", nil)
		}
	}()
	tx := &Tx{conn: c}
	if err := fn(tx); err != nil {
		return err
	}
	// Whether it commits must not depend on a context that may have ended.
	if _, err := c.exec(context.WithoutCancel(ctx), "COMMIT", nil); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	committed = true
	tx.committed()
	return nil
}

func (c *sqliteConn) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt, ok := c.statements[text]; ok {
		return stmt, nil
	}
	stmt, err := c.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if len(c.statements) < maxStatements {
		c.statements[text] = stmt
	}
	return stmt, nil
}

// The writing connection ignores cancellation while a statement runs: the
// driver would start a goroutine for each statement, and writes are short.

func (c *sqliteConn) query(ctx context.Context, text string, args []any) (Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	stmt, err := c.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	return sqlRows(ctx, c.watch.Start(ctx, text), stmt, args)
}

func (c *sqliteConn) exec(ctx context.Context, text string, args []any) (n int64, err error) {
	err = c.execEach(ctx, text, slices.Values([][]any{args}), func(_ []any, wrote int64) { n = wrote })
	return n, err
}

// execEach runs a statement with every row of arguments, and tells how many rows that
// wrote. It is observed as one statement, as it is one on PostgreSQL.
func (c *sqliteConn) execEach(
	ctx context.Context, text string, rows iter.Seq[[]any], wrote func(row []any, n int64),
) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	stmt, err := c.statement(ctx, text)
	if err != nil {
		return err
	}
	running, total := c.watch.Start(ctx, text), int64(0)
	defer func() { running.End(ctx, total, err) }()
	for row := range rows {
		result, err := stmt.ExecContext(ctx, row...)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		wrote(row, n)
		total += n
	}
	return nil
}

// closingRows adapts *sql.Rows to Rows.
type closingRows struct {
	*sql.Rows
	ctx     context.Context
	running *Statement // nil if statements are not observed
	read    int64
}

// Next implements Rows.
func (r *closingRows) Next() bool {
	more := r.Rows.Next()
	if more {
		r.read++
	}
	return more
}

// Close implements Rows.
func (r *closingRows) Close() {
	_ = r.Rows.Close()
	r.running.End(r.ctx, r.read, r.Rows.Err())
}

// Err implements Rows.
func (r *closingRows) Err() error { return full(r.Rows.Err()) }

// sqlRows queries a statement that is being watched.
func sqlRows(ctx context.Context, running *Statement, stmt *sql.Stmt, args []any) (Rows, error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		running.End(ctx, 0, err)
		return nil, err
	}
	return &closingRows{Rows: rows, ctx: ctx, running: running}, nil
}
