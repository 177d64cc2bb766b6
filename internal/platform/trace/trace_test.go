package trace_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00f067aa0ba902b7"
)

func header(traceparent string) http.Header { return http.Header{"Traceparent": {traceparent}} }

// TestTraceparent has the cases of W3C Trace Context: what is not valid starts a new
// trace.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header         string
		taken, sampled bool
	}{
		{"00-" + traceID + "-" + parent + "-01", true, true},
		{"00-" + traceID + "-" + parent + "-00", true, false},
		{"00-" + traceID + "-" + parent + "-03", true, true},
		{"01-" + traceID + "-" + parent + "-01-more", true, true},
		{"01-" + traceID + "-" + parent + "-01", true, true},
		{"", false, false},
		{"00-" + traceID + "-" + parent + "-01-more", false, false},
		{"01-" + traceID + "-" + parent + "-01.more", false, false},
		{"ff-" + traceID + "-" + parent + "-01", false, false},
		{"00-" + strings.ToUpper(traceID) + "-" + parent + "-01", false, false},
		{"00-" + strings.Repeat("0", 32) + "-" + parent + "-01", false, false},
		{"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", false, false},
		{"00-" + traceID + "-" + parent + "-0g", false, false},
		{"0-" + traceID + "-" + parent + "-01", false, false},
		{"00-" + traceID[:31] + "x-" + parent + "-01", false, false},
		{strings.Repeat("-", 55), false, false},
		{strings.Repeat("0", 1<<16), false, false},
	} {
		tracer := trace.New(trace.Sampler{FollowParent: true}, nil)
		ctx, span := tracer.Request(t.Context(), header(c.header))
		if taken := span.TraceID() == traceID; taken != c.taken || span.Recorded() != c.sampled {
			t.Errorf("%.80q: taken %v, sampled %v", c.header, taken, span.Recorded())
		}
		if len(trace.ID(ctx)) != 32 || (trace.SampledID(ctx) != "") != c.sampled {
			t.Errorf("%.80q: the context has the id %q", c.header, trace.ID(ctx))
		}
	}
}

// TestSampler takes the share of the ids, and clients' decisions only if it shall.
func TestSampler(t *testing.T) {
	t.Parallel()
	recorded := func(s trace.Sampler, h http.Header) (n int) {
		tracer := trace.New(s, nil)
		for range 4_000 {
			if _, span := tracer.Request(t.Context(), h); span.Recorded() {
				n++
			}
		}
		return n
	}
	if n := recorded(trace.Sampler{Ratio: 1}, nil); n != 4_000 {
		t.Errorf("%d of 4000 with a ratio of 1", n)
	}
	if n := recorded(trace.Sampler{}, nil); n != 0 {
		t.Errorf("%d of 4000 with a ratio of 0", n)
	}
	// 11 standard deviations: once in longer than the universe will be.
	if n := recorded(trace.Sampler{Ratio: .25}, nil); n < 700 || n > 1_300 {
		t.Errorf("%d of 4000 with a ratio of 0.25", n)
	}
	asked := header("00-" + traceID + "-" + parent + "-01")
	if n := recorded(trace.Sampler{}, asked); n != 0 {
		t.Errorf("a client made %d of 4000 be recorded", n)
	}
	if n := recorded(trace.Sampler{FollowParent: true}, asked); n != 4_000 {
		t.Errorf("%d of 4000 that the client records", n)
	}
}

// TestNothing is recorded without a tracer, a trace or a decision for it.
func TestNothing(t *testing.T) {
	var none *trace.Tracer
	ctx, span := none.Request(t.Context(), header("00-"+traceID+"-"+parent+"-01"))
	if ctx != t.Context() || span != nil || trace.ID(ctx) != "" {
		t.Error("a nil tracer makes something")
	}
	_, job := none.Root(ctx, "job", trace.Internal)
	for _, s := range []*trace.Span{span, job, trace.Start(ctx, "SELECT", trace.Client)} {
		s.Set("a", 1)
		s.Fail()
		s.Rename("b")
		s.Inject(http.Header{})
		s.End()
		if s.Recorded() || s.Propagates("example.org") || s.TraceID() != "" {
			t.Error("a nil span has something")
		}
	}
	unsampled, _ := trace.New(trace.Sampler{}, nil).Root(t.Context(), "job", trace.Internal)
	if trace.Start(unsampled, "SELECT", trace.Client) != nil {
		t.Error("a trace that is not recorded has spans")
	}
	if n := testing.AllocsPerRun(100, func() { none.Request(ctx, nil); trace.Start(ctx, "", trace.Client).End() }); n != 0 {
		t.Errorf("no tracer costs %v allocations", n)
	}
}

// collector keeps what it is sent.
type collector struct {
	mu    sync.Mutex
	spans []*tracepb.Span
	posts int
	err   error
}

func (c *collector) post(_ context.Context, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	var got tracepb.TracesData
	if err := proto.Unmarshal(body, &got); err != nil {
		return err
	}
	c.posts++
	c.spans = append(c.spans, got.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()...)
	return nil
}

// sending runs a sender while fn runs, and flushes it.
func sending(t *testing.T, tracer *trace.Tracer, c *collector, fn func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	sender := &trace.Sender{Tracer: tracer, Post: c.post, Resource: map[string]string{"service.name": "w"}, Log: slog.New(slog.DiscardHandler)}
	ended := make(chan struct{})
	go func() { sender.Run(ctx); close(ended) }()
	fn()
	stop()
	<-ended
}

func TestSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracer, c := trace.New(trace.Sampler{Ratio: 1}, nil), &collector{}
		sending(t, tracer, c, func() {
			ctx, root := tracer.Request(t.Context(), header("00-"+traceID+"-"+parent+"-01"))
			child := trace.Start(ctx, "SELECT", trace.Client)
			child.Set("db.query.text", "SELECT $1")
			child.Set("rows", 3)
			child.Fail()
			time.Sleep(time.Second)
			child.End()
			root.Rename("GET /api/v1/me")
			root.End()
			time.Sleep(6 * time.Second)
			if c.posts != 1 {
				t.Errorf("%d requests after the interval, want 1", c.posts)
			}
			_, late := tracer.Root(t.Context(), "job", trace.Internal)
			late.End()
		})
		if len(c.spans) != 3 || tracer.Sent.Load() != 3 || tracer.Dropped.Load() != 0 {
			t.Fatalf("%d spans, %d sent, %d dropped; want 3", len(c.spans), tracer.Sent.Load(), tracer.Dropped.Load())
		}
		child, root := c.spans[0], c.spans[1]
		if root.GetName() != "GET /api/v1/me" || root.GetKind() != tracepb.Span_SPAN_KIND_SERVER ||
			!bytes.Equal(child.GetParentSpanId(), root.GetSpanId()) || !bytes.Equal(child.GetTraceId(), root.GetTraceId()) {
			t.Errorf("the spans do not fit: %v and %v", root, child)
		}
		if child.GetEndTimeUnixNano()-child.GetStartTimeUnixNano() != 1e9 || len(child.GetAttributes()) != 2 ||
			child.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
			t.Errorf("the span of the statement is %v", child)
		}
	})
}

// TestBounded: neither a huge trace nor a collector that is away takes memory.
func TestBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracer, c := trace.New(trace.Sampler{Ratio: 1}, nil), &collector{}
		sending(t, tracer, c, func() {
			ctx, root := tracer.Root(t.Context(), "job", trace.Internal)
			for range 10_000 {
				trace.Start(ctx, "INSERT", trace.Client).End()
			}
			root.End()
		})
		if len(c.spans) != 256 {
			t.Errorf("a trace of 10,000 statements has %d spans", len(c.spans))
		}
		c.err = errors.New("away")
		for range 20_000 { // no sender drains the queue
			_, root := tracer.Root(t.Context(), "job", trace.Internal)
			root.End()
		}
		before := tracer.Dropped.Load()
		sending(t, tracer, c, func() {})
		if len(c.spans) != 256 || tracer.Dropped.Load() <= before {
			t.Errorf("%d spans, %d dropped", len(c.spans), tracer.Dropped.Load())
		}
	})
}

// TestContinue: work that is done later is in the trace that caused it.
func TestContinue(t *testing.T) {
	t.Parallel()
	tracer := trace.New(trace.Sampler{Ratio: 1}, nil)
	ctx, request := tracer.Root(t.Context(), "request", trace.Server)
	_, job := tracer.Continue(t.Context(), trace.Parent(ctx), "job", trace.Internal)
	if job.TraceID() != request.TraceID() || !job.Recorded() {
		t.Errorf("the job is in the trace %s, recorded %v; want that of the request", job.TraceID(), job.Recorded())
	}
	none := trace.New(trace.Sampler{}, nil)
	ctx, request = none.Root(t.Context(), "request", trace.Server)
	if got := trace.Parent(ctx) + trace.Parent(t.Context()); got != "" {
		t.Errorf("a request that is not recorded, or none, is the parent %q", got)
	}
	for _, parent := range []string{"", "00-x"} {
		if _, job := tracer.Continue(t.Context(), parent, "job", trace.Internal); len(job.TraceID()) != 32 || job.TraceID() == request.TraceID() {
			t.Errorf("%q: the job has the trace %q", parent, job.TraceID())
		}
	}
	if _, job := (*trace.Tracer)(nil).Continue(t.Context(), "", "job", trace.Internal); job != nil {
		t.Error("a job is recorded without a tracer")
	}
}

// TestPropagation: the id of a trace leaves only to the hosts that are named.
func TestPropagation(t *testing.T) {
	t.Parallel()
	_, s := trace.New(trace.Sampler{Ratio: 1}, []string{"model.internal", "judge.internal:8443"}).Root(t.Context(), "", trace.Client)
	for address, want := range map[string]bool{
		"model.internal": true, "Model.Internal:8080": true, "judge.internal:8443": true,
		"judge.internal": false, "judge.internal:80": false, "evil.example": false, "model.internal.evil.example": false, "": false,
	} {
		if got := s.Propagates(address); got != want {
			t.Errorf("to %q: %v", address, got)
		}
	}
	h := http.Header{}
	s.Inject(h)
	if got := h.Get("Traceparent"); len(got) != 55 || !strings.HasPrefix(got, "00-"+s.TraceID()+"-") || !strings.HasSuffix(got, "-01") {
		t.Errorf("traceparent %q", got)
	}
}

func TestLogHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(trace.LogHandler(slog.NewTextHandler(&out, nil))).With("in", "test")
	ctx, span := trace.New(trace.Sampler{}, nil).Root(t.Context(), "job", trace.Internal)
	log.InfoContext(ctx, "with")
	log.InfoContext(t.Context(), "without")
	lines := strings.Split(out.String(), "\n")
	if !strings.Contains(lines[0], "in=test trace_id="+span.TraceID()) || strings.Contains(lines[1], "trace_id") {
		t.Error(out.String())
	}
}
