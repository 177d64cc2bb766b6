// Package trace records what the service does as spans, and sends them to a collector
// by OTLP: a request or a job with the statements and the requests to others that it
// makes. Without a Tracer nothing is recorded, and a nil Span records nothing. Spans
// have routes, kinds and the text of statements, and never values, paths or names that
// people chose. It owns no tables.
package trace

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A Tracer starts traces and keeps spans until they are sent.
type Tracer struct {
	sampler   Sampler
	propagate []string
	queue     chan *Span

	// Dropped counts the spans that were not sent, and Sent those that were.
	Dropped, Sent atomic.Int64
}

// A Sampler decides which traces are recorded.
type Sampler struct {
	// Ratio is the share of traces, from 0 to 1.
	Ratio float64
	// FollowParent takes the decision of a client that sends one.
	FollowParent bool
}

const (
	// queueSize is how many ended spans wait to be sent; more are dropped.
	queueSize = 8_192
	// maxSpans is how many spans a trace has in this process: an upload can make
	// thousands of statements.
	maxSpans = 256
	// maxAttributes is how many a span has.
	maxAttributes = 16
)

// New returns a tracer. Hosts are the servers that get the trace's id with requests to
// them, as host or host:port; "*" is all of them.
func New(s Sampler, hosts []string) *Tracer {
	used.Store(true)
	return &Tracer{sampler: s, propagate: hosts, queue: make(chan *Span, queueSize)}
}

// Kind is the side of a span.
type Kind int32

// The kinds of OTLP.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// A Span is one step of a trace. It is used by one goroutine; a nil one records
// nothing.
type Span struct {
	tracer  *Tracer
	trace   [16]byte
	id      [8]byte
	parent  [8]byte // zero for the first of a trace
	sampled bool
	count   *atomic.Int32 // spans of this trace

	name       string
	kind       Kind
	start, end time.Time
	failed     bool

	attributes []attribute
}

type attribute struct {
	key   string
	value any // string, int64 or bool
}

type spanKey struct{}

// used is set with the first tracer: without one, no context needs to be searched.
var used atomic.Bool

func from(ctx context.Context) *Span {
	if !used.Load() {
		return nil
	}
	s, _ := ctx.Value(spanKey{}).(*Span)
	return s
}

// Root starts a trace of the process's own, e.g. for a job.
func (t *Tracer) Root(ctx context.Context, name string, kind Kind) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	s := &Span{tracer: t, name: name, kind: kind, start: time.Now(), count: new(atomic.Int32)}
	binary.BigEndian.PutUint64(s.trace[:8], rand.Uint64())
	binary.BigEndian.PutUint64(s.trace[8:], rand.Uint64())
	s.id, s.sampled = newID(), t.sampler.sample(s.trace)
	return context.WithValue(ctx, spanKey{}, s), s
}

// Continue starts a span in the trace of a Parent, or a trace of its own without one.
func (t *Tracer) Continue(ctx context.Context, parent, name string, kind Kind) (context.Context, *Span) {
	ctx, s := t.Root(ctx, name, kind)
	if trace, id, sampled, ok := parse(parent); ok && s != nil {
		s.trace, s.parent, s.sampled = trace, id, sampled
	}
	return ctx, s
}

// Request starts the trace of a request, or continues the client's.
func (t *Tracer) Request(ctx context.Context, header http.Header) (context.Context, *Span) {
	ctx, s := t.Continue(ctx, header.Get("Traceparent"), "request", Server)
	if s != nil && !t.sampler.FollowParent {
		s.sampled = t.sampler.sample(s.trace)
	}
	return ctx, s
}

// sample decides by the id, so that every service with the same ratio decides alike.
func (s Sampler) sample(trace [16]byte) bool {
	return s.Ratio >= 1 || float64(binary.BigEndian.Uint64(trace[8:])>>1) < s.Ratio*(1<<63)
}

func newID() (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1) // zero is none
	return id
}

// Start starts a span below that of the context; nil if the context has none that is
// recorded.
func Start(ctx context.Context, name string, kind Kind) *Span {
	p := from(ctx)
	if p == nil || !p.sampled {
		return nil
	}
	if p.count.Add(1) >= maxSpans {
		p.tracer.Dropped.Add(1)
		return nil
	}
	return &Span{
		tracer: p.tracer, trace: p.trace, id: newID(), parent: p.id, sampled: true, count: p.count,
		name: name, kind: kind, start: time.Now(),
	}
}

// Parent names the context's span to work that is done later, with Continue; "" if it is
// not recorded.
func Parent(ctx context.Context) string {
	if s := from(ctx); s.Recorded() {
		return s.traceparent()
	}
	return ""
}

// ID is the id of the context's trace in hexadecimal, "" without one.
func ID(ctx context.Context) string {
	if s := from(ctx); s != nil {
		return s.TraceID()
	}
	return ""
}

// SampledID is ID if the trace is recorded, else "".
func SampledID(ctx context.Context) string {
	if s := from(ctx); s != nil && s.sampled {
		return s.TraceID()
	}
	return ""
}

// TraceID is the id of the span's trace in hexadecimal.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return hex.EncodeToString(s.trace[:])
}

// Recorded reports whether the span will be sent.
func (s *Span) Recorded() bool { return s != nil && s.sampled }

// Rename gives the span the name that is known only now, e.g. its route.
func (s *Span) Rename(name string) {
	if s.Recorded() {
		s.name = name
	}
}

// Set sets an attribute: a string, an int, an int64 or a bool.
func (s *Span) Set(key string, value any) {
	if !s.Recorded() || len(s.attributes) == maxAttributes {
		return
	}
	if n, ok := value.(int); ok {
		value = int64(n)
	}
	s.attributes = append(s.attributes, attribute{key, value})
}

// Fail marks the span as an error. It takes no message: an error may quote what
// people sent.
func (s *Span) Fail() {
	if s != nil {
		s.failed = true
	}
}

// End ends the span. It never waits: if spans cannot be sent as fast as they are made,
// they are dropped.
func (s *Span) End() {
	if !s.Recorded() {
		return
	}
	s.end = time.Now()
	select {
	case s.tracer.queue <- s:
	default:
		s.tracer.Dropped.Add(1)
	}
}

// Propagates reports whether a server at that address, host or host:port, gets the id
// of the trace.
func (s *Span) Propagates(address string) bool {
	if s == nil {
		return false
	}
	host, _, _ := strings.Cut(address, ":")
	return slices.ContainsFunc(s.tracer.propagate, func(allowed string) bool {
		return allowed == "*" || strings.EqualFold(allowed, address) || strings.EqualFold(allowed, host)
	})
}

// Inject sets the header that continues the trace at another server.
func (s *Span) Inject(header http.Header) {
	if s != nil {
		header.Set("Traceparent", s.traceparent())
	}
}

func (s *Span) traceparent() string {
	flags := "00"
	if s.sampled {
		flags = "01"
	}
	return "00-" + s.TraceID() + "-" + hex.EncodeToString(s.id[:]) + "-" + flags
}

// parse reads a header traceparent of W3C Trace Context.
func parse(header string) (trace [16]byte, parent [8]byte, sampled, ok bool) {
	// version "-" trace "-" parent "-" flags; a later version may have more.
	const size = 55
	if len(header) < size || header[2] != '-' || header[35] != '-' || header[52] != '-' {
		return trace, parent, false, false
	}
	version, flags := header[:2], [1]byte{}
	if version == "ff" || version == "00" && len(header) != size || len(header) > size && header[size] != '-' ||
		strings.ToLower(header[:size]) != header[:size] {
		return trace, parent, false, false
	}
	for _, part := range []struct {
		to   []byte
		text string
	}{{make([]byte, 1), version}, {trace[:], header[3:35]}, {parent[:], header[36:52]}, {flags[:], header[53:55]}} {
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil {
			return [16]byte{}, [8]byte{}, false, false
		}
	}
	if trace == [16]byte{} || parent == [8]byte{} {
		return trace, parent, false, false
	}
	return trace, parent, flags[0]&1 == 1, true
}

// EndRequest ends the span of a request. A path is not recorded, only its route: some
// paths have a token in them.
func (s *Span) EndRequest(method, route string, status int) {
	if !s.Recorded() {
		return
	}
	s.Rename(route)
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	s.Set("http.request.method", method)
	s.Set("http.route", route)
	s.Set("http.response.status_code", status)
	if status >= http.StatusInternalServerError {
		s.Fail()
	}
	s.End()
}
