package telemetry

import (
	"context"
	"net/http"

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

// pushOutput is the outcome of a push. A client must look at Rejected even if the
// status is 201.
type pushOutput struct {
	Status       string         `json:"status" enum:"accepted"`
	PushID       string         `json:"push_id" format:"uuid"`
	Duplicate    bool           `json:"duplicate,omitempty" doc:"The push was there already"`
	Accepted     int            `json:"accepted" doc:"Records taken"`
	Unattributed int            `json:"unattributed" doc:"Records taken whose skill is hidden by its producer"`
	Rejected     []rejection    `json:"rejected" nullable:"false" doc:"Records that could not be taken; the first 1000 of them"`
	Content      *contentOutput `json:"content,omitempty" doc:"What became of the transcripts; missing without any"`
}

// contentOutput has the fields of Content, which makes them convertible.
type contentOutput struct {
	Kept    int    `json:"kept" doc:"Texts that are kept now"`
	Dropped int    `json:"dropped" doc:"Texts that were not stored"`
	Message string `json:"message" doc:"Why texts were dropped, and what to do; empty if none were"`
}

// HTTPStatus is 200 for a duplicate.
func (o pushOutput) HTTPStatus() int {
	if o.Duplicate {
		return http.StatusOK
	}
	return http.StatusCreated
}

func (s *Service) handlePush(ctx context.Context, in pushInput) (pushOutput, error) {
	r, err := s.Push(ctx, access.From(ctx), in.RawBody)
	return pushOutput{
		Status: "accepted", PushID: r.PushID, Duplicate: r.Duplicate, Accepted: r.Accepted,
		Unattributed: r.Unattributed, Rejected: append([]rejection{}, r.Rejected[:min(len(r.Rejected), maxRejections)]...),
		Content: (*contentOutput)(r.Content),
	}, err
}

type getPushInput struct {
	PushID string `path:"push_id"`
}

type getPushOutput struct {
	Status     string       `json:"status" enum:"accepted"`
	PushID     string       `json:"push_id"`
	Accepted   int          `json:"accepted"`
	Rejected   int          `json:"rejected"`
	ReceivedAt httpapi.Time `json:"received_at"`
}

func (s *Service) handleGetPush(ctx context.Context, in getPushInput) (getPushOutput, error) {
	p, err := pushByID(ctx, s.DB, access.From(ctx).OrgID, canonicalPushID(in.PushID))
	return getPushOutput{"accepted", p.ID, p.Accepted, p.Rejected, httpapi.Time(p.ReceivedAt)}, err
}

type verifyOutput struct {
	Enrolled       bool          `json:"enrolled"`
	LastPushAt     *httpapi.Time `json:"last_push_at"`
	KeyPrefix      string        `json:"key_prefix" example:"st_live_3fKx"`
	KeyCreatedAt   httpapi.Time  `json:"key_created_at"`
	TotalPushes    int           `json:"total_pushes"`
	LastPushStatus *string       `json:"last_push_status"`
}

func (s *Service) handleVerify(ctx context.Context, _ struct{}) (out verifyOutput, err error) {
	c := access.From(ctx)
	key, err := s.Auth.Key(ctx, c.OrgID, c.KeyID)
	if err != nil {
		return out, err
	}
	pushes, err := pushesOfUser(ctx, s.DB, c.UserID)
	out = verifyOutput{
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
