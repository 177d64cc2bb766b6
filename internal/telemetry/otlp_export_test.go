package telemetry

import (
	"context"
	"fmt"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/skills"
)

// TextOf returns the text of an attribute.
func TextOf(all []*common.KeyValue, key string) string { return attributes{all}.text(key) }

// AllowList returns the attributes that are kept as rows of a table.
func AllowList() (rows []string) {
	cell := func(keys ...string) string {
		all := strings.Fields(strings.Join(keys, " "))
		for i, key := range all {
			all[i] = "`" + key + "`"
		}
		return strings.Join(all, " ")
	}
	for _, a := range allowList {
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |",
			a.sender, cell(a.skill, a.skills, a.names), cell(a.ids, a.words), cell(a.numbers)))
	}
	return rows
}

// ReadOTLP reads a body of logs, traces or metrics as the receiver does, except
// for what needs a database. It also returns the redacted body.
func ReadOTLP(signal, contentType string, raw []byte, now time.Time) (skills.Report, []byte, error) {
	e, err := encodingOf(contentType)
	if err != nil {
		return skills.Report{}, nil, err
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
	if err := e.decode(context.Background(), raw, data); err != nil {
		return skills.Report{}, nil, err
	}
	redactor{orgID: "org", salt: []byte("salt"), fingerprints: signal == "metrics"}.message(data.ProtoReflect())
	kept, err := proto.Marshal(data)
	if err != nil {
		return skills.Report{}, nil, err
	}
	read()
	all := n.observations
	var groups activations
	for _, s := range n.reports {
		all = append(all, groups.resolve(s))
	}
	for _, c := range n.points {
		all = append(all, c.Observation)
	}
	return skills.Report{Observations: all, Gradings: n.gradings}, kept, nil
}
