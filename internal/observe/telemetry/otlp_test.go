package telemetry_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// An otlpWay is the encoding and compression of a request.
type otlpWay struct {
	name string
	json bool
	gzip bool
	grpc bool
}

var (
	inProtobuf = otlpWay{name: "protobuf"}
	inJSON     = otlpWay{name: "json", json: true}
	otlpWays   = []otlpWay{
		inProtobuf, inJSON,
		{name: "protobuf gzip", gzip: true},
		{name: "json gzip", json: true, gzip: true},
		{name: "grpc", grpc: true},
		{name: "grpc gzip", grpc: true, gzip: true},
	}
)

// export sends a message as its producer does.
func (c *client) export(way otlpWay, m proto.Message) apptest.Response {
	c.T.Helper()
	path := map[string]string{
		"LogsData": "/v1/logs", "TracesData": "/v1/traces", "MetricsData": "/v1/metrics",
	}[string(m.ProtoReflect().Descriptor().Name())]
	raw, err := proto.Marshal(m)
	headers := []string{"Content-Type: application/x-protobuf"}
	if way.grpc {
		return c.exportByGRPC(strings.TrimPrefix(path, "/v1/"), frameOf(raw, way.gzip)).Response
	}
	if way.json {
		raw, err = otlpJSON(m)
		headers[0] = "Content-Type: application/json"
	}
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	if way.gzip {
		raw = gzipped(raw)
		headers = append(headers, "Content-Encoding: gzip")
	}
	return c.Do(http.MethodPost, path, raw, headers...)
}

// take sends a message, all of which must be accepted.
func (c *client) take(way otlpWay, m proto.Message) {
	c.T.Helper()
	a := c.export(way, m).Want(http.StatusOK)
	want, contentType := "", "application/x-protobuf"
	if way.json {
		want, contentType = "{}", "application/json"
	}
	if way.grpc {
		contentType = "application/grpc"
	}
	if string(a.Body) != want || a.Header.Get("Content-Type") != contentType {
		c.T.Fatalf("answer %q as %q, want %q as %q", a.Body, a.Header.Get("Content-Type"), want, contentType)
	}
}

// otlpJSON encodes a message as OTLP's JSON: like protojson, but with ids in hex
// and enums as numbers.
func otlpJSON(m proto.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	hexIDs(value)
	return json.Marshal(value)
}

func hexIDs(value any) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			hexIDs(v)
		}
	case map[string]any:
		for key, v := range value {
			if text, ok := v.(string); ok && slices.Contains([]string{"traceId", "spanId", "parentSpanId"}, key) {
				id, _ := base64.StdEncoding.DecodeString(text)
				value[key] = hex.EncodeToString(id)
			}
			hexIDs(v)
		}
	}
}

func gzipped(raw []byte) []byte {
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	_, _ = w.Write(raw)
	_ = w.Close()
	return packed.Bytes()
}

// attributes makes a list of pairs: a name, then a value.
func attributes(pairs ...any) (all []*common.KeyValue) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, &common.KeyValue{Key: pairs[i].(string), Value: anyValue(pairs[i+1])})
	}
	return all
}

func anyValue(v any) *common.AnyValue {
	switch v := v.(type) {
	case string:
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}}
	case int:
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(v)}}
	case float64:
		return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: v}}
	case bool:
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v}}
	case []byte:
		return &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: v}}
	case []string:
		list := &common.ArrayValue{}
		for _, text := range v {
			list.Values = append(list.Values, anyValue(text))
		}
		return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: list}}
	case []*common.KeyValue:
		return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: v}}}
	}
	panic(fmt.Sprintf("no attribute is a %T", v))
}

func nanos(t time.Time) uint64 { return uint64(t.UnixNano()) }

// logsOf wraps log records as Claude Code sends them.
func logsOf(records ...*logs.LogRecord) *logs.LogsData {
	return &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource: &resource.Resource{Attributes: attributes("service.name", "claude-code", "service.version", "2.1.250",
			"os.type", "linux")},
		ScopeLogs: []*logs.ScopeLogs{{
			Scope:      &common.InstrumentationScope{Name: "com.anthropic.claude_code.events", Version: "2.1.250"},
			LogRecords: records,
		}},
	}}}
}

// claude writes the log events of one session of Claude Code.
type claude struct {
	session  string
	at       time.Time // of the event with number 0
	sequence int
}

// event returns the next event, with the attributes that Claude Code always adds.
func (c *claude) event(name, prompt string, pairs ...any) *logs.LogRecord {
	c.sequence++
	at := c.at.Add(time.Duration(c.sequence) * time.Second)
	return &logs.LogRecord{
		TimeUnixNano: nanos(at), ObservedTimeUnixNano: nanos(at), SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_INFO,
		Body: anyValue("claude_code." + name),
		Attributes: append(attributes(
			"user.id", "a68801ea", "session.id", c.session, "app.version", "2.1.250", "organization.id", "14451454-16e1-4f42",
			"user.email", "jo@example.net", "user.account_uuid", "784e9f9a-0000",
			"user.account_id", "user_01FrehyoAK5", "terminal.type", "vscode",
			"event.name", name, "event.timestamp", at.Format(time.RFC3339Nano), "event.sequence", c.sequence, "prompt.id", prompt,
		), attributes(pairs...)...),
	}
}

func (c *claude) activated(prompt, skill, trigger string) *logs.LogRecord {
	return c.event("skill_activated", prompt, "skill.name", skill, "invocation_trigger", trigger,
		"skill.source", "projectSettings")
}

func (c *claude) result(prompt, skill, call string, success bool) *logs.LogRecord {
	return c.event("tool_result", prompt, "tool_name", "Skill", "tool_use_id", call, "success", fmt.Sprint(success),
		"duration_ms", "4", "decision_type", "accept", "decision_source", "config",
		"tool_parameters", `{"skill_name":"`+skill+`"}`, "tool_input", `{"skill":"`+skill+`"}`)
}

func (c *claude) decision(prompt, skill, call, decision string) *logs.LogRecord {
	return c.event("tool_decision", prompt, "tool_name", "Skill", "tool_use_id", call, "decision", decision,
		"source", "user_reject",
		"tool_parameters", `{"skill_name":"`+skill+`"}`)
}

// span is Claude Code's span of a call of the tool Skill.
func (c *claude) span(skill, call string) *trace.Span {
	return &trace.Span{
		TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), Name: "claude_code.tool",
		StartTimeUnixNano: nanos(c.at), EndTimeUnixNano: nanos(c.at.Add(time.Hour)),
		Attributes: attributes("session.id", c.session, "tool_name", "Skill", "skill_name", skill, "tool_use_id", call,
			"gen_ai.tool.call.id", call),
	}
}

// spansOf wraps spans as Copilot sends them.
func spansOf(spans ...*trace.Span) *trace.TracesData {
	return &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource:   &resource.Resource{Attributes: attributes("service.name", "github-copilot", "service.version", "1.0.95")},
		ScopeSpans: []*trace.ScopeSpans{{Scope: &common.InstrumentationScope{Name: "github.copilot"}, Spans: spans}},
	}}}
}

// counterOf wraps points of Codex's counter.
func counterOf(temporality metrics.AggregationTemporality, points ...*metrics.NumberDataPoint) *metrics.MetricsData {
	return &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource: &resource.Resource{Attributes: attributes("service.name", "codex_cli_rs", "service.version", "0.146.0",
			"env", "prod")},
		ScopeMetrics: []*metrics.ScopeMetrics{{Scope: &common.InstrumentationScope{Name: "codex"}, Metrics: []*metrics.Metric{{
			Name: "codex.skill.injected",
			Data: &metrics.Metric_Sum{Sum: &metrics.Sum{
				AggregationTemporality: temporality, IsMonotonic: true, DataPoints: points,
			}},
		}}}},
	}}}
}

const (
	delta      = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
)

// injected is a point of Codex's counter.
func injected(start, at time.Time, value int64, pairs ...any) *metrics.NumberDataPoint {
	p := &metrics.NumberDataPoint{
		TimeUnixNano: nanos(at), Value: &metrics.NumberDataPoint_AsInt{AsInt: value},
		Attributes: append(attributes("skill", "pdf-forms", "status", "ok"), attributes(pairs...)...),
	}
	if !start.IsZero() {
		p.StartTimeUnixNano = nanos(start)
	}
	return p
}

// figures are the numbers of a skill in the performance API, all days together.
type figures struct {
	Sessions, Checks, Triggers, Graded  int
	TriggerRate, Confidence, Covered, P *float64
	First, Last                         string
}

// figures reads the numbers of a skill; an unknown one has none.
func (c *client) figures(skill string) (f figures) {
	c.T.Helper()
	a := c.Get("/v1/skills/" + skill + "?days=7")
	if a.Status == http.StatusNotFound {
		return f
	}
	var body struct {
		Skill struct {
			UniqueSessions     int      `json:"unique_sessions"`
			GradedSessions     int      `json:"graded_sessions"`
			TriggerRate        *float64 `json:"trigger_rate"`
			AvgConfidence      *float64 `json:"avg_confidence"`
			ConfidenceCoverage *float64 `json:"confidence_coverage"`
			PassRate           *float64 `json:"pass_rate"`
			FirstSeenAt        string   `json:"first_seen_at"`
			LastSeenAt         string   `json:"last_seen_at"`
		}
		DailyStats []struct{ Checks, Triggers int } `json:"daily_stats"`
	}
	a.Want(http.StatusOK).Into(&body)
	f = figures{
		Sessions: body.Skill.UniqueSessions, Graded: body.Skill.GradedSessions, TriggerRate: body.Skill.TriggerRate,
		Confidence: body.Skill.AvgConfidence, Covered: body.Skill.ConfidenceCoverage, P: body.Skill.PassRate,
		First: body.Skill.FirstSeenAt, Last: body.Skill.LastSeenAt,
	}
	for _, day := range body.DailyStats {
		f.Checks += day.Checks
		f.Triggers += day.Triggers
	}
	return f
}

// wantFigures compares the numbers of a skill, except for its times.
func (c *client) wantFigures(skill string, want figures) {
	c.T.Helper()
	got := c.figures(skill)
	got.First, got.Last = "", ""
	if diff := cmp.Diff(want, got); diff != "" {
		c.T.Errorf("%s (-want +got):\n%s", skill, diff)
	}
}

// skillNames returns the skills of the organisation.
func (c *client) skillNames() []string {
	c.T.Helper()
	names := []string{}
	for _, s := range c.Get("/v1/skills?per_page=100").Want(http.StatusOK).Object()["skills"].([]any) {
		names = append(names, s.(object)["name"].(string))
	}
	return names
}

func share(f float64) *float64 { return &f }

// anHourAgo is a time that the databases store exactly.
func anHourAgo() time.Time { return time.Now().Add(-time.Hour).UTC().Truncate(time.Second) }

// permutations calls fn with the numbers below n in every order.
func permutations(n int, fn func(order []int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var from func(k int)
	from = func(k int) {
		if k == n {
			fn(slices.Clone(order))
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			from(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	from(0)
}

// everyOrder sends signals of one skill in every order, each order for a skill
// of its own: log records, spans, and records of a push. The first of each
// order is repeated at the end. It returns the skills.
func (c *client) everyOrder(signals func(skill string) []any) (names []string) {
	c.T.Helper()
	var steps [][]any // what comes at the same place in all orders
	permutations(len(signals("")), func(order []int) {
		name := "order-" + strings.ReplaceAll(strings.Trim(fmt.Sprint(order), "[]"), " ", "-")
		all := signals(name)
		steps = slices.Grow(steps, len(all)+1)[:len(all)+1]
		for place, i := range append(order, order[0]) {
			steps[place] = append(steps[place], all[i])
		}
		names = append(names, name)
	})
	for place, step := range steps {
		c.sendAll(otlpWays[place%len(otlpWays)], step)
	}
	return names
}

// sendAll sends signals, all of a kind in one body.
func (c *client) sendAll(way otlpWay, signals []any) {
	c.T.Helper()
	var records []*logs.LogRecord
	var spans []*trace.Span
	var invocations []object
	for _, s := range signals {
		switch s := s.(type) {
		case *logs.LogRecord:
			records = append(records, s)
		case *trace.Span:
			spans = append(spans, s)
		case object:
			invocations = append(invocations, s)
		}
	}
	if records != nil {
		c.take(way, logsOf(records...))
	}
	if spans != nil {
		c.take(way, spansOf(spans...))
	}
	if invocations != nil {
		c.push("", object{"skill_invocations": invocations})
	}
}
