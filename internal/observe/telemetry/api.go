package telemetry

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Limits of a body.
const (
	maxWire     = 32 << 20 // compressed
	maxInflated = 64 << 20
	// maxValues is how many JSON values a body may hold, that is some 300,000
	// records; a full body of prompts has half as many.
	maxValues = 2_000_000
	// maxOTLPValues is higher, since otlp bounds the objects of OTLP;
	// attributes and numbers come on top.
	maxOTLPValues = 5_000_000
	// maxRejections is how many rejected records a response lists.
	maxRejections = 1000
)

// Mount adds the routes of telemetry. The OTLP paths are those that exporters append
// to their endpoint (OTLP/HTTP).
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handlePush, httpapi.Route{
		Permission: access.TelemetryWrite, Method: "POST", Path: "/api/v1/push", Status: http.StatusCreated,
		Also: []int{http.StatusOK}, MaxBody: maxWire, MaxInflated: maxInflated, MaxValues: maxValues,
		Consumes: []httpapi.Media{{Type: "application/json", Body: envelope{}}},
		Summary:  "Push canonical records of sessions (schema 2.0)",
	})
	otlp := &receiver{Service: s}
	httpapi.Add(a, otlp.handleLogs, otlpRoute(httpapi.Route{
		Path: "/v1/logs", Consumes: inBothEncodings(exportLogsRequest{}), Produces: inBothEncodings(exportLogsResponse{}),
		Summary: "Ingest OTLP logs, protobuf or JSON",
	}))
	httpapi.Add(a, otlp.handleTraces, otlpRoute(httpapi.Route{
		Path: "/v1/traces", Consumes: inBothEncodings(exportTracesRequest{}), Produces: inBothEncodings(exportTracesResponse{}),
		Summary: "Ingest OTLP spans, protobuf or JSON",
	}))
	httpapi.Add(a, otlp.handleMetrics, otlpRoute(httpapi.Route{
		Path: "/v1/metrics", Consumes: inBothEncodings(exportMetricsRequest{}),
		Produces: inBothEncodings(exportMetricsResponse{}),
		Summary:  "Ingest OTLP metrics, protobuf or JSON",
	}))
	httpapi.Add(a, s.handleGetPush, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/push/{push_id}",
		Summary: "Ask whether a push has arrived",
	})
	httpapi.Add(a, s.handleVerify, httpapi.Route{
		Method: "GET", Path: "/api/v1/alpha/verify",
		Summary: "Get what this key has pushed so far",
	})
	httpapi.Add(a, s.handleErase, httpapi.Route{
		Permission: access.Write, Method: "DELETE", Path: "/api/v1/me/data", Status: http.StatusNoContent,
		Summary: "Erase the caller's raw telemetry",
	})
}

// otlpRoute adds what all routes of OTLP share. Errors have the body of
// google.rpc.Status, which exporters understand.
func otlpRoute(r httpapi.Route) httpapi.Route {
	r.Permission, r.Method = access.TelemetryWrite, "POST"
	r.MaxBody, r.MaxInflated, r.MaxValues = maxWire, maxInflated, maxOTLPValues
	r.Errors = &httpapi.ErrorFormat{Encode: otlp.EncodeStatus, Bodies: inBothEncodings(otlp.Status{})}
	return r
}

type pushInput struct {
	RawBody []byte
}

type pushOutput struct{ api.PushResult }

// HTTPStatus is 200 for a duplicate.
func (o pushOutput) HTTPStatus() int {
	if o.Duplicate {
		return http.StatusOK
	}
	return http.StatusCreated
}

func (s *Service) handlePush(ctx context.Context, in pushInput) (pushOutput, error) {
	r, err := s.Push(ctx, access.From(ctx), in.RawBody)
	return pushOutput{api.PushResult{
		Status: "accepted", PushID: r.PushID, Duplicate: r.Duplicate, Accepted: r.Accepted,
		Unattributed: r.Unattributed, Rejected: append([]rejection{}, r.Rejected[:min(len(r.Rejected), maxRejections)]...),
		Content: (*api.PushedContent)(r.Content),
	}}, err
}

type getPushInput struct {
	PushID string `path:"push_id"`
}

func (s *Service) handleGetPush(ctx context.Context, in getPushInput) (api.ReceivedPush, error) {
	p, err := pushByID(ctx, s.DB, access.From(ctx).OrgID, canonicalPushID(in.PushID))
	return api.ReceivedPush{
		Status: "accepted", PushID: p.ID, Accepted: p.Accepted, Rejected: p.Rejected, ReceivedAt: httpapi.Time(p.ReceivedAt),
	}, err
}

func (s *Service) handleVerify(ctx context.Context, _ struct{}) (out api.Enrolment, err error) {
	c := access.From(ctx)
	key, err := s.Auth.Key(ctx, c.OrgID, c.KeyID)
	if err != nil {
		return out, err
	}
	pushes, err := pushesOfUser(ctx, s.DB, c.UserID)
	out = api.Enrolment{
		Enrolled: true, LastPushAt: httpapi.NullTime(pushes.LastAt), KeyPrefix: key.Prefix,
		KeyCreatedAt: httpapi.Time(key.CreatedAt), TotalPushes: pushes.Count,
	}
	if pushes.Count > 0 {
		accepted := "accepted"
		out.LastPushStatus = &accepted
	}
	return out, err
}

func (s *Service) handleErase(ctx context.Context, _ struct{}) (httpapi.None, error) {
	return httpapi.None{}, s.Erase(ctx, access.From(ctx))
}
