package telemetry

import (
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// The bodies of OTLP in JSON, for the OpenAPI document. Their fields are those of
// opentelemetry-proto; what a message holds is its specification's business.

type exportLogsRequest struct {
	ResourceLogs []map[string]any `json:"resourceLogs,omitempty" doc:"Messages opentelemetry.proto.logs.v1.ResourceLogs"`
}

type exportTracesRequest struct {
	ResourceSpans []map[string]any `json:"resourceSpans,omitempty" doc:"Messages opentelemetry.proto.trace.v1.ResourceSpans"`
}

type exportMetricsRequest struct {
	ResourceMetrics []map[string]any `json:"resourceMetrics,omitempty" doc:"Messages opentelemetry.proto.metrics.v1.ResourceMetrics"`
}

type exportLogsResponse struct {
	PartialSuccess *logsPartialSuccess `json:"partialSuccess,omitempty" doc:"Missing if all was accepted without a warning"`
}

type logsPartialSuccess struct {
	Rejected string `json:"rejectedLogRecords" example:"1" doc:"An integer: protobuf's JSON has those of 64 bits as strings"`
	Message  string `json:"errorMessage"`
}

type exportTracesResponse struct {
	PartialSuccess *tracesPartialSuccess `json:"partialSuccess,omitempty" doc:"Missing if all was accepted without a warning"`
}

type tracesPartialSuccess struct {
	Rejected string `json:"rejectedSpans" example:"1" doc:"An integer: protobuf's JSON has those of 64 bits as strings"`
	Message  string `json:"errorMessage"`
}

type exportMetricsResponse struct {
	PartialSuccess *metricsPartialSuccess `json:"partialSuccess,omitempty" doc:"Missing if all was accepted without a warning"`
}

type metricsPartialSuccess struct {
	Rejected string `json:"rejectedDataPoints" example:"1" doc:"An integer: protobuf's JSON has those of 64 bits as strings"`
	Message  string `json:"errorMessage"`
}

// inBothEncodings lists a body of OTLP, whose JSON is that of a type.
func inBothEncodings(body any) []httpapi.Media {
	return []httpapi.Media{{Type: otlp.Protobuf.MediaType}, {Type: otlp.JSON.MediaType, Body: body}}
}
