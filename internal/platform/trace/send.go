package trace

import (
	"context"
	"log/slog"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A Sender sends the spans of a tracer to a collector.
type Sender struct {
	Tracer *Tracer
	// Post sends one ExportTraceServiceRequest in its binary form.
	Post func(ctx context.Context, body []byte) error
	// Resource describes this process, e.g. service.name.
	Resource map[string]string
	Log      *slog.Logger
	// Interval is how often spans are sent that are fewer than a batch; 5 s when 0.
	Interval time.Duration

	failing bool // the last batch could not be sent
}

const (
	sendBatch       = 512
	defaultInterval = 5 * time.Second
	sendTimeout     = 10 * time.Second
	// flushTime is how long the end of the process waits for the collector.
	flushTime = 3 * time.Second
)

// Run sends spans until the context ends, and then what is left.
func (s *Sender) Run(ctx context.Context) {
	interval := s.Interval
	if interval == 0 {
		interval = defaultInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var batch []*Span
	for {
		select {
		case span := <-s.Tracer.queue:
			if batch = append(batch, span); len(batch) < sendBatch {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			s.flush(context.WithoutCancel(ctx), batch)
			return
		}
		s.send(ctx, batch)
		batch = nil
	}
}

// flush sends what is left, as far as the collector takes it at once.
func (s *Sender) flush(ctx context.Context, batch []*Span) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case span := <-s.Tracer.queue:
			if batch = append(batch, span); len(batch) < sendBatch {
				continue
			}
			s.send(ctx, batch)
			batch = nil
		default:
			s.send(ctx, batch)
			return
		}
	}
}

// send sends a batch once. Spans are dropped while the collector is away: those of
// now tell more than old ones.
func (s *Sender) send(ctx context.Context, batch []*Span) {
	if len(batch) == 0 {
		return
	}
	body, err := proto.Marshal(s.request(batch))
	if err == nil {
		post, cancel := context.WithTimeout(ctx, sendTimeout)
		err = s.Post(post, body)
		cancel()
	}
	switch {
	case err != nil && !s.failing: // whetstone_trace_spans_total counts the others
		s.Log.WarnContext(ctx, "traces cannot be sent, and are dropped", "error", err)
	case err == nil && s.failing:
		s.Log.InfoContext(ctx, "traces are sent again")
	}
	s.failing = err != nil
	if err != nil {
		s.Tracer.Dropped.Add(int64(len(batch)))
		return
	}
	s.Tracer.Sent.Add(int64(len(batch)))
}

// request is the batch in the wire form of an ExportTraceServiceRequest, which
// TracesData has, too.
func (s *Sender) request(batch []*Span) *tracepb.TracesData {
	spans := make([]*tracepb.Span, len(batch))
	for i, span := range batch {
		spans[i] = span.encode()
	}
	resource := &resourcepb.Resource{}
	for key, value := range s.Resource {
		resource.Attributes = append(resource.Attributes, encodeAttribute(attribute{key, value}))
	}
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "whetstone"}, Spans: spans}},
	}}}
}

func (s *Span) encode() *tracepb.Span {
	e := &tracepb.Span{
		TraceId: s.trace[:], SpanId: s.id[:], Name: s.name, Kind: tracepb.Span_SpanKind(s.kind),
		StartTimeUnixNano: uint64(s.start.UnixNano()), EndTimeUnixNano: uint64(s.end.UnixNano()), // after 1970
	}
	if s.parent != [8]byte{} {
		e.ParentSpanId = s.parent[:]
	}
	for _, a := range s.attributes {
		e.Attributes = append(e.Attributes, encodeAttribute(a))
	}
	if s.failed {
		e.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	}
	return e
}

func encodeAttribute(a attribute) *commonpb.KeyValue {
	v := &commonpb.AnyValue{}
	switch value := a.value.(type) {
	case string:
		v.Value = &commonpb.AnyValue_StringValue{StringValue: value}
	case int64:
		v.Value = &commonpb.AnyValue_IntValue{IntValue: value}
	case bool:
		v.Value = &commonpb.AnyValue_BoolValue{BoolValue: value}
	}
	return &commonpb.KeyValue{Key: a.key, Value: v}
}
