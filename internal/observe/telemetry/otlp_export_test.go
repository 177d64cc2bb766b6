package telemetry

import (
	"context"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// TextOf returns the text of an attribute.
func TextOf(all []*common.KeyValue, key string) string { return otlp.Attributes{all}.Text(key) }

// ReadOTLP reads a body of logs, traces or metrics as the receiver does, except
// for what needs a database. It also returns the redacted body.
func ReadOTLP(signal, contentType string, raw []byte, now time.Time) (Reading, []byte, error) {
	e, err := otlp.EncodingOf(contentType)
	if err != nil {
		return Reading{}, nil, err
	}
	var data proto.Message
	n := &normalizer{caller: access.Caller{OrgID: "org", UserID: "user"}, now: now}
	var read func()
	switch signal {
	case "logs":
		d := &logs.LogsData{}
		data, read = d, func() { n.logs(d) }
	case "traces":
		d := &trace.TracesData{}
		data, read = d, func() { n.traces(d) }
	default:
		d := &metrics.MetricsData{}
		data, read = d, func() { n.metrics(d) }
	}
	if err := e.Decode(context.Background(), raw, data); err != nil {
		return Reading{}, nil, err
	}
	otlp.Redactor{OrgID: "org", Salt: []byte("salt"), Fingerprints: signal == "metrics"}.Redact(data)
	kept, err := proto.Marshal(data)
	if err != nil {
		return Reading{}, nil, err
	}
	read()
	all := n.observations
	var groups pointGroup
	for _, s := range n.reports {
		all = append(all, groups.Resolve(s))
	}
	for _, c := range n.points {
		all = append(all, c.Observation)
	}
	report := skills.Report{Observations: all, Gradings: n.gradings}
	return Reading{report, n.requests, n.marks, n.events, n.accepted, n.rejected}, kept, nil
}
