package store

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/whetstone-dev/whetstone/internal/base/fair"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

type postgresEngine struct {
	pool *pgxpool.Pool
	// pooled says that a pooler gives each transaction another connection.
	pooled bool
	// writers bounds the transactions of InGroup, in which everything is ingested: they
	// wait by organisation, and leave connections to those who read.
	writers *fair.Gate
}

// postgresConn is a pool or a transaction.
type postgresConn struct {
	q interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
	}
}

const defaultPostgresConns = 16

func openPostgres(ctx context.Context, o Options) (*postgresEngine, error) {
	e, err := newPostgres(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := e.ping(ctx); err != nil {
		_ = e.close()
		return nil, err
	}
	return e, nil
}

// newPostgres does not connect yet.
func newPostgres(ctx context.Context, o Options) (*postgresEngine, error) {
	address, pooled, err := cutPooler(o.URL)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		// pgx's message repeats the URL and redacts the password, but not in every
		// malformed one.
		return nil, fault.Invalid("database-url", "database-url is not a valid PostgreSQL URL")
	}
	config.MaxConns = defaultPostgresConns
	if o.MaxConns > 0 {
		config.MaxConns = int32(min(o.MaxConns, 1_000)) // bounded in this line
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	if pooled {
		// Prepared statements belong to a connection. This mode keeps only their
		// descriptions, here, and sends the text with each execution.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if o.Watch != nil {
		config.ConnConfig.Tracer = o.Watch
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	writers := max(1, int(config.MaxConns)*3/4)
	return &postgresEngine{pool: pool, pooled: pooled, writers: fair.NewGate(writers, maxWaiting)}, nil
}

// cutPooler takes the parameter pooler from a URL: with pooler=transaction, a pooler
// such as PgBouncer is between, and gives each transaction another connection.
func cutPooler(raw string) (_ string, pooled bool, err error) {
	const name = "pooler"
	u, _ := url.Parse(raw) // pgx reports what is wrong with it
	if u == nil || !u.Query().Has(name) {
		return raw, false, nil
	}
	query := u.Query()
	switch query.Get(name) {
	case "transaction":
		pooled = true
	case "session":
	default:
		return "", false, fault.Invalid("database-url", "pooler in database-url must be transaction or session")
	}
	query.Del(name)
	u.RawQuery = query.Encode()
	return u.String(), pooled, nil
}

// Pooled reports whether what a connection remembers between transactions is lost:
// it cannot LISTEN.
func (db *DB) Pooled() bool {
	e, ok := db.engine.(*postgresEngine)
	return ok && e.pooled
}

// Listen calls fn with what is sent to a channel of PostgreSQL, until the context ends or
// the connection breaks. It takes a connection from the pool.
func (db *DB) Listen(ctx context.Context, channel string, fn func(payload string)) error {
	e, ok := db.engine.(*postgresEngine)
	if !ok {
		return errors.New("only PostgreSQL has channels")
	}
	pooled, err := e.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := pooled.Hijack() // nobody else must get one that listens
	defer func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		fn(n.Payload)
	}
}

func (e *postgresEngine) query(ctx context.Context, sql string, args []any) (Rows, error) {
	return postgresConn{e.pool}.query(ctx, sql, args)
}

func (e *postgresEngine) exec(ctx context.Context, sql string, args []any) (int64, error) {
	return postgresConn{e.pool}.exec(ctx, sql, args)
}

// The SQLSTATEs of transactions that succeed when they are tried again.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	// What a row refers to was deleted after the transaction had found it: the next
	// try does not find it.
	foreignKeyViolation = "23503"
)

// maxTries bounds how often a transaction is tried that PostgreSQL aborts because
// of another one.
const maxTries = 4

func (e *postgresEngine) inTx(ctx context.Context, fn func(*Tx) error) (err error) {
	for range maxTries {
		tx := &Tx{dialect: e.dialect()}
		err = pgx.BeginFunc(ctx, e.pool, func(t pgx.Tx) error {
			tx.conn = postgresConn{t}
			return fn(tx)
		})
		if err == nil {
			tx.committed()
			return nil
		}
		if !failedWith(err, serializationFailure, deadlockDetected, foreignKeyViolation) {
			return unavailable(err)
		}
	}
	return err
}

// failedWith reports whether PostgreSQL answered with one of these SQLSTATEs.
func failedWith(err error, states ...string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(states, e.Code)
}

// unavailable turns the errors of a database that cannot be reached, or whose
// connection broke, into Unavailable: the caller can retry.
func unavailable(err error) error {
	e, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err // the caller's own context ended
	case answered && !strings.HasPrefix(e.Code, "57P") && !strings.HasPrefix(e.Code, "53"), !answered && !isLost(err):
		return err // neither an operator's intervention (57P) nor a lack of resources (53)
	}
	return fault.New(fault.Unavailable, "The database is not available now; try again").After(time.Second).Because(err)
}

// isLost reports whether no connection could be made, or it broke.
func isLost(err error) bool {
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	_, broken := errors.AsType[*net.OpError](err)
	return refused || broken || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

// inGroup is inTx behind the gate: PostgreSQL does group commit itself.
func (e *postgresEngine) inGroup(ctx context.Context, fn func(*Tx) error) error {
	if err := e.writers.Enter(ctx); err != nil {
		return overloaded(err)
	}
	defer e.writers.Leave()
	return e.inTx(ctx, fn)
}

func (e *postgresEngine) ping(ctx context.Context) error { return e.pool.Ping(ctx) }

func (e *postgresEngine) dialect() Dialect { return Dialect{postgres: true} }

func (e *postgresEngine) stats() Stats {
	s := e.pool.Stat()
	return Stats{
		Open: int(s.TotalConns()), InUse: int(s.AcquiredConns()), Max: int(s.MaxConns()),
		Waits: s.EmptyAcquireCount(), Waited: s.EmptyAcquireWaitTime(), Writers: e.writers.Len(),
	}
}

func (e *postgresEngine) close() error {
	e.pool.Close()
	return nil
}

func (c postgresConn) query(ctx context.Context, sql string, args []any) (Rows, error) {
	rows, err := c.q.Query(ctx, sql, args...)
	if err != nil {
		return nil, unavailable(err)
	}
	return postgresRows{rows}, nil
}

// postgresRows report a connection that breaks while they are read.
type postgresRows struct{ pgx.Rows }

// Err implements Rows.
func (r postgresRows) Err() error { return unavailable(r.Rows.Err()) }

func (c postgresConn) exec(ctx context.Context, sql string, args []any) (int64, error) {
	tag, err := c.q.Exec(ctx, sql, args...)
	return tag.RowsAffected(), unavailable(err)
}
