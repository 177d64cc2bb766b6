package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// Traces are the settings of the service's own traces. They can also be set by the
// environment variables of OpenTelemetry. Ours come first: the others are often set for every
// process of a machine.
type Traces struct {
	TraceOTLPEndpoint URL      `name:"trace-otlp-endpoint" env:"WHETSTONE_TRACE_OTLP_ENDPOINT,OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,OTEL_EXPORTER_OTLP_ENDPOINT" placeholder:"URL" help:"Collector that gets traces of the service by OTLP over HTTP, e.g. http://127.0.0.1:4318; none when empty."`
	TraceOTLPHeader   Secrets  `name:"trace-otlp-header" env:"WHETSTONE_TRACE_OTLP_HEADER,OTEL_EXPORTER_OTLP_TRACES_HEADERS,OTEL_EXPORTER_OTLP_HEADERS" mapsep:"," placeholder:"NAME=VALUE" help:"Header of these requests; repeatable."`
	TraceSampler      string   `env:"WHETSTONE_TRACE_SAMPLER,OTEL_TRACES_SAMPLER" default:"parentbased_traceidratio" enum:"always_on,always_off,traceidratio,parentbased_always_on,parentbased_always_off,parentbased_traceidratio" help:"Which traces are recorded; with parentbased_ the client decides if it sends a traceparent: ${enum}."`
	TraceRatio        float64  `env:"WHETSTONE_TRACE_RATIO,OTEL_TRACES_SAMPLER_ARG" default:"1" placeholder:"0.1" help:"Share of traces that traceidratio records, from 0 to 1."`
	TraceService      string   `env:"WHETSTONE_TRACE_SERVICE,OTEL_SERVICE_NAME" default:"whetstone" placeholder:"NAME" help:"Name of the service in traces."`
	TracePropagate    []string `placeholder:"HOST,..." help:"Servers that get the id of a trace with requests to them (traceparent), as HOST or HOST:PORT; none when empty."`
}

const tracesPath = "/v1/traces"

// TracesURL is the URL that traces are posted to. Collectors are named with or without
// the path of traces.
func (t *Traces) TracesURL() string {
	u := strings.TrimRight(string(t.TraceOTLPEndpoint), "/")
	if u == "" || strings.HasSuffix(u, tracesPath) {
		return u
	}
	return u + tracesPath
}

// Sampler is the sampler that the settings name. Without a parent, parentbased samplers decide
// like the one that they are named after.
func (t *Traces) Sampler() trace.Sampler {
	name, follow := strings.CutPrefix(t.TraceSampler, "parentbased_")
	s := trace.Sampler{FollowParent: follow}
	switch name {
	case "always_on":
		s.Ratio = 1
	case "traceidratio":
		s.Ratio = t.TraceRatio
	}
	return s
}

func (t *Traces) checkTraces() (issues []fault.Issue) {
	if t.TraceOTLPEndpoint != "" {
		u, err := url.Parse(string(t.TraceOTLPEndpoint))
		if err != nil || !t.TraceOTLPEndpoint.hasScheme("http", "https") || u.RawQuery != "" || u.Fragment != "" {
			issues = append(issues, fault.At("trace-otlp-endpoint",
				"trace-otlp-endpoint must be http://... or https://..., like http://127.0.0.1:4318"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.TraceOTLPHeader)) {
		if !headerName.MatchString(name) || strings.ContainsAny(string(t.TraceOTLPHeader[name]), "\r\n\x00") {
			issues = append(issues, fault.At("trace-otlp-header",
				"trace-otlp-header must be NAME=VALUE; %q is no name of a header, or its value has a line break", name))
		}
	}
	// Written so that NaN is refused, too.
	if !(t.TraceRatio >= 0 && t.TraceRatio <= 1) {
		issues = append(issues, fault.At("trace-ratio", "trace-ratio must lie between 0 and 1"))
	}
	return issues
}
