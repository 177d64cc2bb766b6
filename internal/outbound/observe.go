package outbound

import (
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/measure"
)

// observed measures each request, redirects included.
type observed struct {
	next http.RoundTripper
	peer *measure.Peer
}

// RoundTrip implements http.RoundTripper.
func (o *observed) RoundTrip(req *http.Request) (*http.Response, error) {
	started, status := time.Now(), 0
	resp, err := o.next.RoundTrip(req)
	if err == nil {
		status = resp.StatusCode
	}
	o.peer.Ended(status, time.Since(started))
	return resp, err
}
