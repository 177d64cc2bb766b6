package outbound

import (
	"net/http"
)

// HTTP returns an http.Client for libraries that need one, with c's SSRF guard,
// redirect policy and limits. Its transport returns the errors of Do, but
// net/http wraps them in a *url.Error that names the URL: before an error is
// shown, the *fault.Error must be unwrapped.
func (c *Client) HTTP() *http.Client {
	guarded := c.http
	guarded.Transport = &transport{client: c}
	return &guarded
}

// transport applies a Client's checks and limits to each request.
type transport struct{ client *Client }

// RoundTrip checks a request, sends it and limits the size of the response.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := checkRequest(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as every http.RoundTripper must
		}
		return nil, err
	}
	origin := req.URL.Scheme + "://" + req.URL.Host
	resp, err := t.client.http.Transport.RoundTrip(req)
	if err != nil {
		return nil, redactError(origin, err)
	}
	limit := t.client.limits.MaxBody
	resp.Body = &limitedBody{from: resp.Body, origin: origin, left: limit, limit: limit}
	return resp, nil
}
