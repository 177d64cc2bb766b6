// Package grpc lets agents send OTLP by gRPC. It translates a call to the request
// of OTLP over HTTP and its response back, so that both go the same road: keys,
// limits, memory budgets, quotas, metrics and messages are those of the route.
//
// It speaks only what OTLP needs of gRPC, unary calls over HTTP/2 with gzip: a
// message is a frame of 5 bytes and its data, and the status is in the trailers.
package grpc

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
)

// contentType is that of a call and of its response.
const contentType = "application/grpc"

// routes are the routes of OTLP over HTTP, by the path of the call.
var routes = map[string]string{
	"/opentelemetry.proto.collector.logs.v1.LogsService/Export":       "/v1/logs",
	"/opentelemetry.proto.collector.trace.v1.TraceService/Export":     "/v1/traces",
	"/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "/v1/metrics",
}

// Handler serves gRPC calls by the routes of next, and passes on all other requests.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		switch {
		case media != contentType && media != contentType+"+proto":
			next.ServeHTTP(w, r)
		case r.ProtoMajor < 2:
			http.Error(w, "gRPC needs HTTP/2: the proxy before the server must speak HTTP/2 to it",
				http.StatusHTTPVersionNotSupported)
		default:
			serve(w, r, next)
		}
	})
}

func serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	m := &message{from: r.Body, encoding: r.Header.Get("Grpc-Encoding")}
	a := &answer{ResponseWriter: w}
	route := routes[r.URL.Path]
	if route == "" {
		a.send(status{code: unimplemented, message: "No such call: " + r.URL.Path + "; the service takes OTLP's Export"})
		return
	}
	next.ServeHTTP(a, translate(r, route, m))
	if a.status >= http.StatusBadRequest {
		// Send the status of an error. A problem of the frame explains it better than the route
		// does, which only knows that the body could not be read.
		s := statusOf(a.status, a.Header(), a.body.Bytes())
		if m.problem != "" {
			s.code, s.message = invalidArgument, m.problem
		}
		a.send(s)
		return
	}
	// Send the message with the status OK.
	a.begin()
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(a.body.Len()))
	_, _ = a.ResponseWriter.Write(append(frame, a.body.Bytes()...)) // the client is gone if this fails
	a.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// translate returns the request over HTTP.
func translate(r *http.Request, route string, m *message) *http.Request {
	t := r.WithContext(r.Context())
	t.URL = &url.URL{Path: route}
	t.Header = r.Header.Clone()
	t.Header.Set("Content-Type", otlp.Protobuf.MediaType)
	for _, name := range []string{"Content-Length", "Content-Encoding", "Accept"} {
		t.Header.Del(name)
	}
	t.Body, t.ContentLength = m, -1
	return t
}

// An answer keeps the response over HTTP back.
type answer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer // small: that of an export or of an error
}

// Unwrap lets http.ResponseController reach the stream, for its deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *answer) send(s status) {
	a.begin()
	s.write(a.Header())
}

func (a *answer) begin() {
	a.Header().Set("Content-Type", contentType)
	a.Header().Set("Grpc-Accept-Encoding", "identity,gzip")
	a.Header().Del("Content-Length")
	a.ResponseWriter.WriteHeader(http.StatusOK) // the status of the call is in the trailers
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}
