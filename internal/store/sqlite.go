package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"modernc.org/sqlite"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// sqliteEngine has one connection that writes and several that read.
// Write-ahead logging lets them go on side by side.
type sqliteEngine struct {
	path    string
	file    os.FileInfo // of path, when it was opened
	writers *sql.DB
	readers *sql.DB
	writer  *sqliteConn   // the one connection of writers
	turn    chan struct{} // holds one token; whoever has it may use writer
	closed  chan struct{}

	closeOnce func() error
	group     GroupCommit[struct{}, func(*Tx) error]

	mu         sync.Mutex
	statements map[string]*sql.Stmt // of readers
}

// maxStatements bounds the prepared statements kept per connection. Statement
// texts are written in the code, so in practice it is never reached.
const maxStatements = 1000

const defaultReaders = 8

func openSQLite(ctx context.Context, path string, maxConns int) (_ *sqliteEngine, err error) {
	defer func() { err = unwritable(path, err) }()
	if maxConns == 0 {
		maxConns = defaultReaders
	}
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	e := &sqliteEngine{path: path, turn: make(chan struct{}, 1), closed: make(chan struct{}), statements: map[string]*sql.Stmt{}}
	e.group.Commit, e.group.MaxSize, e.group.MaxWaiting = e.commitGroup, maxGroup, maxWaiting
	e.closeOnce = sync.OnceValue(e.closeAll)
	if e.writers, err = sql.Open("sqlite", sqliteDSN(path, writerPragmas()...)); err != nil {
		return nil, err
	}
	e.writers.SetMaxOpenConns(1)
	c, err := e.writers.Conn(ctx)
	if err != nil {
		return nil, err
	}
	e.writer = &sqliteConn{conn: c, statements: map[string]*sql.Stmt{}}
	if e.readers, err = sql.Open("sqlite", sqliteDSN(path, "query_only(ON)")); err != nil {
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

// makePrivate makes a database file that only its owner can read, whatever the
// umask: SQLite gives the files beside it the same mode. A file that is there
// stays as it is.
func makePrivate(path string) error {
	// It is not opened if it is there: to close it would be to release the locks
	// that SQLite has on it in this process.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// unwritable says what keeps a database from being opened, where its driver
// only says that it cannot be.
func unwritable(path string, err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	refused := ok && (e.Code()&0xff == sqliteReadOnly || e.Code()&0xff == sqliteCantOpen)
	switch {
	case err == nil:
		return nil
	case refused, errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.New(fault.Unavailable, "the database %s cannot be written by this user: give the file and its folder to the user that runs Whetstone, "+
			"and see that they are not on a read-only file system", path).Because(err)
	}
	return full(fault.Disk(err))
}

// writerPragmas let a transaction that touches many pages keep them in memory
// (32 MB) and move them from the log into the database only now and then: a
// commit is durable when it is in the log.
func writerPragmas() []string { return []string{"cache_size(-32768)", "wal_autocheckpoint(8000)"} }

// sqliteDSN sets what an acknowledged write needs to survive a power cut, and
// patience with other processes (the command line works beside the server).
func sqliteDSN(path string, pragmas ...string) string {
	query := url.Values{"_pragma": append([]string{
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "cache_size(-8000)",
	}, pragmas...)}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}).String()
}

func (e *sqliteEngine) query(ctx context.Context, text string, args []any) (Rows, error) {
	stmt, err := e.statement(ctx, text)
	if err != nil {
		return nil, full(err)
	}
	rows, err := sqlRows(stmt.QueryContext(ctx, args...))
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
	select {
	case <-e.turn:
	case <-e.closed:
		return sql.ErrConnDone
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { e.turn <- struct{}{} }()
	return full(e.writer.inTx(ctx, fn))
}

// SQLite's result codes; the lower eight bits are the kind.
const (
	sqliteReadOnly = 8
	sqliteIOError  = 10
	sqliteFull     = 13
	sqliteCantOpen = 14
)

// full gives the errors of a disk that takes no more their kind: the caller can
// try again when somebody has made room.
func full(err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok || e.Code()&0xff != sqliteFull && e.Code()&0xff != sqliteIOError {
		return err
	}
	return fault.New(fault.Unavailable, "The database cannot be written now; is the disk full?").After(10 * time.Second).Because(err)
}

const (
	maxGroup   = 512   // calls in one commit
	maxWaiting = 8_192 // calls that wait; more are refused
)

func (e *sqliteEngine) inGroup(ctx context.Context, fn func(*Tx) error) error {
	err := e.group.Do(ctx, struct{}{}, fn)
	if errors.Is(err, ErrGroupFull) {
		return fault.New(fault.Unavailable, "The database cannot keep up; try again").After(time.Second)
	}
	return err
}

// A groupCall is a function that shares a transaction.
type groupCall = GroupCall[func(*Tx) error]

// commitGroup runs several functions in one transaction. If one fails, nothing
// of the shared transaction stays, and each runs in a transaction of its own:
// a failure is rare and must not be the others' failure.
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

// runCall calls the function unless its caller has gone. A panic is the
// caller's error: it runs on another caller's goroutine and must not take that
// one down.
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

// ping also finds out that the file was moved away: open connections would
// go on writing into nothing.
func (e *sqliteEngine) ping(ctx context.Context) error {
	if now, err := os.Stat(e.path); err != nil || !os.SameFile(now, e.file) {
		return fmt.Errorf("the database file %s was removed or replaced", e.path)
	}
	return e.readers.PingContext(ctx)
}

func (e *sqliteEngine) dialect() Dialect { return Dialect{} }

func (e *sqliteEngine) stats() Stats {
	r, w := e.readers.Stats(), e.writers.Stats()
	return Stats{Open: r.OpenConnections + w.OpenConnections, InUse: r.InUse + 1 - len(e.turn)}
}

// close waits for the transaction that is on its way; those that wait for
// their turn fail. Closing twice is not an error.
func (e *sqliteEngine) close() error { return e.closeOnce() }

// closeAll leaves all data in the database file, so that a copy of it is
// whole. It does not wait for other processes: while one of them reads, what is
// in the write-ahead log stays there, as safe as before.
func (e *sqliteEngine) closeAll() error {
	<-e.turn
	close(e.closed)
	err := e.readers.Close()
	for _, pragma := range []string{"PRAGMA busy_timeout = 0", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		_, _ = e.writer.conn.ExecContext(context.Background(), pragma)
	}
	return errors.Join(err, e.writer.conn.Close(), e.writers.Close())
}

// sqliteConn is a single connection with its prepared statements.
type sqliteConn struct {
	conn       *sql.Conn
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
	if err := fn(&Tx{conn: c}); err != nil {
		return err
	}
	// The end of a transaction must not depend on a context that may be over.
	if _, err := c.exec(context.WithoutCancel(ctx), "COMMIT", nil); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	committed = true
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

// The writing connection does not watch a statement's context while it runs:
// the driver would start a goroutine for each, and writes are short.

func (c *sqliteConn) query(ctx context.Context, text string, args []any) (Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	stmt, err := c.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	return sqlRows(stmt.QueryContext(ctx, args...))
}

func (c *sqliteConn) exec(ctx context.Context, text string, args []any) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx)
	stmt, err := c.statement(ctx, text)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// closingRows fits *sql.Rows to Rows.
type closingRows struct{ *sql.Rows }

func (r closingRows) Close() { _ = r.Rows.Close() }

// Err implements Rows.
func (r closingRows) Err() error { return full(r.Rows.Err()) }

func sqlRows(rows *sql.Rows, err error) (Rows, error) {
	if err != nil {
		return nil, err
	}
	return closingRows{rows}, nil
}
