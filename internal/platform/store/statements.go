package store

import (
	"context"
	"log/slog"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// Statements observes every statement of a database. A nil one observes nothing.
type Statements struct {
	Metrics *metrics.Statements
	// Slow is how long a statement takes that is logged; with 0 none is. Log gets it
	// with its text and never its values.
	Slow time.Duration
	Log  *slog.Logger
	// Traces adds a span for each statement to the trace of its context.
	Traces bool

	mu      sync.Mutex
	second  time.Time // of the lines that are counted
	lines   int
	skipped int
}

const (
	// slowLines is how many slow statements are logged in a second: when everything
	// is slow, the log must not make it slower.
	slowLines = 10
	// maxStatement is how much of a statement's text is logged.
	maxStatement = 2_000
)

// A Statement is one that is being executed. A nil one is not observed.
type Statement struct {
	watch   *Statements
	text    string
	started time.Time
	span    *trace.Span
	done    bool
}

// Start begins to observe a statement, which End ends.
func (w *Statements) Start(ctx context.Context, sql string) *Statement {
	if w == nil {
		return nil
	}
	s := &Statement{watch: w, text: sql, started: time.Now()}
	if w.Traces {
		s.span = trace.Start(ctx, "statement", trace.Client)
	}
	return s
}

// endSpan names the span by the statement's first word, e.g. SELECT.
func (s *Statement) endSpan(rows int64, failed bool) {
	if !s.span.Recorded() {
		return
	}
	words := oneLine(s.text)
	verb, _, _ := strings.Cut(words, " ")
	s.span.Rename(strings.ToUpper(text.Truncate(verb, 20)))
	s.span.Set("db.query.text", words)
	s.span.Set("db.response.returned_rows", rows)
	s.span.Set("code.file.path", caller())
	if failed {
		s.span.Fail()
	}
	s.span.End()
}

func oneLine(statement string) string {
	return text.Truncate(strings.Join(strings.Fields(statement), " "), maxStatement)
}

// End is called when the last row is read. Only the first call counts.
func (s *Statement) End(ctx context.Context, rows int64, err error) {
	if s == nil || s.done {
		return
	}
	s.done = true
	took := time.Since(s.started)
	s.watch.Metrics.Ended(ctx, took, err != nil)
	s.endSpan(rows, err != nil)
	if s.watch.Slow == 0 || took < s.watch.Slow {
		return
	}
	skipped, ok := s.watch.admit(time.Now())
	if !ok {
		return
	}
	line := []any{
		"statement", oneLine(s.text),
		"took", took, "rows", rows, "at", caller(),
	}
	if err != nil {
		line = append(line, "failed", true) // an error may quote a value
	}
	if skipped > 0 {
		line = append(line, "not_logged", skipped)
	}
	s.watch.Log.WarnContext(ctx, "slow statement", line...)
}

// admit tells whether one more line may be logged, and how many could not be since
// the last one.
func (w *Statements) admit(now time.Time) (skipped int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.second) >= time.Second {
		w.second, w.lines = now, 0
	}
	if w.lines == slowLines {
		w.skipped++
		return 0, false
	}
	w.lines++
	skipped, w.skipped = w.skipped, 0
	return skipped, true
}

// caller is the file and line of the code above the store that the statement is
// of; "" if it is a library's.
func caller() string {
	const module, own = "github.com/whetstone-dev/whetstone/", "internal/platform/store"
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if name, ok := strings.CutPrefix(f.Function, module); ok {
			dir, rest := path.Split(name)
			if pkg, _, _ := strings.Cut(rest, "."); dir+pkg != own {
				return dir + pkg + "/" + path.Base(f.File) + ":" + strconv.Itoa(f.Line)
			}
		}
		if !more {
			return ""
		}
	}
}

type statementKey struct{}

// TraceQueryStart implements pgx.QueryTracer. That of the driver also sees what the
// migrations ask.
func (w *Statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, statementKey{}, w.Start(ctx, data.SQL))
}

// TraceQueryEnd implements pgx.QueryTracer.
func (w *Statements) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	s, _ := ctx.Value(statementKey{}).(*Statement)
	s.End(ctx, data.CommandTag.RowsAffected(), data.Err)
}
