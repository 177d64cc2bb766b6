package outbound

import (
	"net/http"
)

// HTTP returns a client of net/http for libraries that want one: it dials,
// redirects and bounds answers as c does, and what its transport returns are
// the errors of Do. net/http itself wraps them in one that names the URL, so
// whoever shows an error takes the *fault.Error out of it.
func (c *Client) HTTP() *http.Client {
	guarded := c.http
	guarded.Transport = &transport{client: c}
	return &guarded
}

// transport makes the single requests of an HTTP client.
type transport struct{ client *Client }

// RoundTrip checks a request, sends it and bounds the answer.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := checkRequest(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as every transport does; the request is lost either way
		}
		return nil, err
	}
	origin := req.URL.Scheme + "://" + req.URL.Host
	resp, err := t.client.http.Transport.RoundTrip(req)
	if err != nil {
		return nil, clean(origin, err)
	}
	limit := t.client.limits.MaxBody
	resp.Body = &body{from: resp.Body, origin: origin, left: limit, limit: limit}
	return resp, nil
}
