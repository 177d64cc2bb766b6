package outbound

import (
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// observed measures and traces each request, redirects included.
type observed struct {
	next http.RoundTripper
	peer *metrics.Peer
}

// RoundTrip implements http.RoundTripper. A trace shows the host and not the path,
// which may be a secret, and goes on only at servers that the operator has named.
func (o *observed) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	span := trace.Start(ctx, req.Method, trace.Client)
	if span.Recorded() {
		span.Set("http.request.method", req.Method)
		span.Set("server.address", req.URL.Hostname())
		if o.peer != nil {
			span.Set("whetstone.peer", o.peer.Kind)
		}
		if span.Propagates(req.URL.Host) {
			req = req.Clone(ctx) // a RoundTripper must not change the caller's
			span.Inject(req.Header)
		}
	}
	started, status := time.Now(), 0
	resp, err := o.next.RoundTrip(req)
	if err == nil {
		status = resp.StatusCode
		span.Set("http.response.status_code", status)
	}
	if err != nil || status >= http.StatusInternalServerError {
		span.Fail()
	}
	span.End()
	o.peer.Ended(ctx, status, time.Since(started))
	return resp, err
}
