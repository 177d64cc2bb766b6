package telemetry_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp/grpc"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// calls are the paths of gRPC, by the signal.
var calls = map[string]string{
	"logs":    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
	"traces":  "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	"metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}

// frameOf puts a message into the frame of gRPC.
func frameOf(message []byte, compressed bool) []byte {
	flag := byte(0)
	if compressed {
		message, flag = gzipped(message), 1
	}
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...)
}

// A grpcResponse has the message of a call in Body.
type grpcResponse struct {
	apptest.Response
	code    int
	message string
	details []byte // a google.rpc.Status; nil if there is none
}

// exportByGRPC makes the call of a signal, or of a path, with a body that is sent as it is.
func (c *client) exportByGRPC(signal string, body []byte, headers ...string) grpcResponse {
	c.T.Helper()
	path := calls[signal]
	if path == "" {
		path = signal
	}
	req := httptest.NewRequestWithContext(c.T.Context(), http.MethodPost, path, bytes.NewReader(body))
	req.ProtoMajor, req.ProtoMinor, req.RemoteAddr = 2, 0, "192.0.2.1:1234"
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Authorization", "Bearer "+c.Key)
	req.Header.Set("Grpc-Encoding", "gzip")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	grpc.Handler(c.World.API).ServeHTTP(recorder, req)
	res := recorder.Result()
	defer res.Body.Close()
	code, err := strconv.Atoi(res.Trailer.Get("Grpc-Status"))
	if err != nil || res.StatusCode != http.StatusOK {
		c.T.Fatalf("%s: status %d, trailers %v: %s", path, res.StatusCode, res.Trailer, recorder.Body)
	}
	r := grpcResponse{
		Response: apptest.Response{T: c.T, What: path, Status: res.StatusCode, Header: res.Header},
		code:     code, message: res.Trailer.Get("Grpc-Message"),
	}
	if details := res.Trailer.Get("Grpc-Status-Details-Bin"); details != "" {
		if r.details, err = base64.RawStdEncoding.DecodeString(details); err != nil {
			c.T.Fatalf("%s: details: %v", path, err)
		}
	}
	raw := recorder.Body.Bytes()
	if code != 0 {
		if len(raw) > 0 {
			c.T.Fatalf("%s: an error with the body %q", path, raw)
		}
		return r
	}
	if len(raw) < 5 || raw[0] != 0 || int(binary.BigEndian.Uint32(raw[1:])) != len(raw)-5 {
		c.T.Fatalf("%s: answer %q is no frame", path, raw)
	}
	r.Body = raw[5:]
	return r
}

// wantError checks the status of a failed call.
func (r grpcResponse) wantError(code int, message string) {
	r.T.Helper()
	if r.code != code || r.message != message {
		r.T.Errorf("%s: %d %q, want %d %q", r.What, r.code, r.message, code, message)
	}
}

// TestGRPCErrors: each error of the route has its code, the same message, and leaves
// nothing behind.
func TestGRPCErrors(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		viewer := w.member(c.Org, access.Viewer)
		good := frameOf(nil, false)
		deep := frameOf(bytes.Repeat([]byte{0xff}, 11), false)
		second := append(frameOf([]byte("\x7a\x03abc"), false), good...)
		secondGzip := append(frameOf([]byte("\x7a\x03abc"), true), frameOf(nil, true)...)
		for signal := range calls {
			c.exportByGRPC(signal, good, "Authorization", "").
				wantError(16, "Missing API key: send the header Authorization: Bearer <API_KEY>")
			c.exportByGRPC(signal, good, "Authorization", "Bearer st_live_wrong").wantError(16, "Unknown API key")
			c.exportByGRPC(signal, nil, "Authorization", "Bearer st_live_wrong").wantError(16, "Unknown API key")
			viewer.exportByGRPC(signal, good).wantError(7, "This needs the permission telemetry:write")
			c.exportByGRPC(signal, nil).wantError(3, "the call has no message")
			c.exportByGRPC(signal, good[:4]).wantError(3, "the call has no message")
			c.exportByGRPC(signal, []byte{7, 0, 0, 0, 0}).wantError(3, "the message does not begin with a frame of gRPC")
			c.exportByGRPC(signal, []byte{0, 0xff, 0xff, 0xff, 0xff, 1}).wantError(3, "the message is shorter than its frame says")
			c.exportByGRPC(signal, []byte{1, 0, 0, 0, 9, 0x1f}).wantError(3, "the message is shorter than its frame says")
			c.exportByGRPC(signal, second).wantError(3, "the call has more than one message")
			c.exportByGRPC(signal, secondGzip).wantError(3, "the call has more than one message")
			c.exportByGRPC(signal, frameOf(nil, true), "Grpc-Encoding", "").
				wantError(3, "the message is compressed, but grpc-encoding does not say how")
			c.exportByGRPC(signal, frameOf(nil, true), "Grpc-Encoding", "zstd").wantError(12, `Content-Encoding "zstd" is not read here`)
			c.exportByGRPC(signal, []byte{1, 0, 0, 0, 2, 'n', 'o'}).wantError(3, "the body is not valid gzip")
			if r := c.exportByGRPC(signal, deep); r.code != 3 || len(r.message) == 0 {
				t.Errorf("%s: a bad message: %d %q", signal, r.code, r.message)
			}
		}
		for _, path := range []string{"/grpc.health.v1.Health/Check", "/v1/logs", "/api/v1/push", "/"} {
			c.exportByGRPC(path, good).wantError(12, "No such call: "+path+"; the service takes OTLP's Export")
		}
		if keys := w.BlobKeys(); len(keys) > 0 {
			t.Errorf("kept %v, want nothing", keys)
		}
		if n := w.Count("telemetry_pushes"); n != 0 {
			t.Errorf("%d pushes, want none", n)
		}
	})
}

// TestGRPCLimits: a frame that is too large, or would be once inflated.
func TestGRPCLimits(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	c := w.org("acme")
	c.exportByGRPC("logs", frameOf(make([]byte, 32<<20+1), false)).wantError(3, "The body is over the limit of 32 MiB")
	c.exportByGRPC("logs", frameOf(make([]byte, 64<<20+1), true)).wantError(3, "The inflated body is over the limit of 64 MiB")
	c.exportByGRPC("traces", frameOf(bytes.Repeat([]byte{0x0a, 0x00}, 2_000_001), true)).
		wantError(3, "The body is over the limit of 2000000 messages; send smaller batches")
}

// TestGRPCOtherRequests: only gRPC over HTTP/2 is translated.
func TestGRPCOtherRequests(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	c := w.org("acme")
	for _, test := range []struct {
		proto       int
		contentType string
		want        int
	}{
		{1, "application/grpc", http.StatusHTTPVersionNotSupported},
		{1, "application/json", http.StatusNotFound},
		{2, "application/grpc-web", http.StatusNotFound},
		{2, "application/grpc+json", http.StatusNotFound},
		{2, "application/grpc+proto", http.StatusOK},
		{2, "application/grpc; charset=utf-8", http.StatusOK},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, calls["logs"], bytes.NewReader(frameOf(nil, false)))
		req.ProtoMajor = test.proto
		req.Header.Set("Content-Type", test.contentType)
		req.Header.Set("Authorization", "Bearer "+c.Key)
		recorder := httptest.NewRecorder()
		grpc.Handler(w.API).ServeHTTP(recorder, req)
		if recorder.Code != test.want {
			t.Errorf("HTTP/%d %s: %d, want %d: %s", test.proto, test.contentType, recorder.Code, test.want, recorder.Body)
		}
	}
}

// TestGRPCRetry: what Retry-After says over HTTP is a RetryInfo, without which
// exporters drop what they sent.
func TestGRPCRetry(t *testing.T) {
	for _, test := range []struct {
		status, code int
		after        string
		seconds      uint64
	}{
		{http.StatusTooManyRequests, 8, "17", 17},
		{http.StatusServiceUnavailable, 14, "5", 5},
		{http.StatusServiceUnavailable, 14, "", 0},
		{http.StatusInternalServerError, 13, "", 0},
		{http.StatusGatewayTimeout, 4, "", 0},
	} {
		busy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if test.after != "" {
				w.Header().Set("Retry-After", test.after)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(`{"error":{"message":"100 % busy, später","status":1}}`))
		})
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, calls["logs"], nil)
		req.ProtoMajor = 2
		req.Header.Set("Content-Type", "application/grpc")
		recorder := httptest.NewRecorder()
		grpc.Handler(busy).ServeHTTP(recorder, req)
		trailer := recorder.Result().Trailer
		if got := trailer.Get("Grpc-Status"); got != strconv.Itoa(test.code) {
			t.Errorf("%d: code %s, want %d", test.status, got, test.code)
		}
		if got := trailer.Get("Grpc-Message"); got != "100 %25 busy, sp%C3%A4ter" {
			t.Errorf("%d: message %q", test.status, got)
		}
		details, err := base64.RawStdEncoding.DecodeString(trailer.Get("Grpc-Status-Details-Bin"))
		if err != nil {
			t.Fatal(err)
		}
		if got := retryDelay(t, details); got != test.seconds {
			t.Errorf("%d: a delay of %d s, want %d", test.status, got, test.seconds)
		}
	}
}

// retryDelay reads the RetryInfo of a google.rpc.Status; 0 without one.
func retryDelay(t *testing.T, status []byte) uint64 {
	t.Helper()
	if len(status) == 0 {
		return 0
	}
	info := fieldsOf(t, []byte(fieldsOf(t, status)[3].(string)))
	if info[1] != "type.googleapis.com/google.rpc.RetryInfo" {
		t.Errorf("details of the type %v", info[1])
	}
	delay := []byte(fieldsOf(t, []byte(info[2].(string)))[1].(string))
	_, _, n := protowire.ConsumeTag(delay)
	seconds, _ := protowire.ConsumeVarint(delay[n:])
	return seconds
}

// TestGRPCTenants: what comes by gRPC belongs to the organisation of the key.
func TestGRPCTenants(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		one, other := w.org("one"), w.org("other")
		s := &claude{session: "s", at: anHourAgo()}
		raw, err := proto.Marshal(logsOf(s.activated("p", "pdf-forms", "user-slash")))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // a retry adds nothing
			if r := one.exportByGRPC("logs", frameOf(raw, true)); r.code != 0 || len(r.Body) > 0 {
				t.Fatalf("%d %q: %q", r.code, r.message, r.Body)
			}
		}
		one.wantFigures("pdf-forms", figures{
			Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: share(1), Covered: share(1),
		})
		if n := w.Count("telemetry_pushes WHERE org_id = $1", other.Org.ID); n != 0 {
			t.Errorf("%d pushes of another organisation", n)
		}
	})
}
