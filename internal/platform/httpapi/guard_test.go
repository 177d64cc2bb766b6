package httpapi_test

import (
	"net/http"
	"testing"
)

func TestKeyIsAskedFor(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	const missing = "Missing API key: send the header Authorization: Bearer <API_KEY>"
	for _, c := range []struct{ name, header, message string }{
		{"no header", "Authorization: ", missing},
		{"wrong scheme", "Authorization: Basic b3duZXI6", missing},
		{"key without a scheme", "Authorization: owner", missing},
		{"scheme without a key", "Authorization: Bearer", missing},
		{"unknown key", "Authorization: Bearer stranger", "Unknown API key"},
		{"encoded space without a key", "Authorization: Bearer%20", missing},
		{"encoded twice", "Authorization: Bearer%2520owner", missing},
		{"encoded space, unknown key", "Authorization: Bearer%20stranger", "Unknown API key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := f.do(t, "GET", "/things/1", "", c.header)
			a.WantError(http.StatusUnauthorized, c.message)
			a.WantHeader("WWW-Authenticate", "Bearer")
		})
	}
	t.Run("encoded space", func(t *testing.T) {
		f.do(t, "GET", "/things/1", "", "Authorization: Bearer%20owner").WantJSON(200, `{"id":"1","org":"acme"}`)
	})
	t.Run("scheme in lower case", func(t *testing.T) {
		f.do(t, "GET", "/things/1", "", "Authorization: bearer  owner").WantJSON(200, `{"id":"1","org":"acme"}`)
	})
}

// TestOrderOfChecks sends requests that are wrong in all remaining ways: the
// first check must answer.
func TestOrderOfChecks(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	for _, c := range []struct {
		name, key, id string
		status        int
		message       string
	}{
		{"key", "stranger", "too-long", 401, "Unknown API key"},
		{"plan", "small-viewer", "too-long", 403, "This needs the pro plan or higher; the organisation is on free"},
		{"permission", "pro-viewer", "too-long", 403, "This needs the permission write"},
		{"not found", "member", "none", 404, "Thing not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.do(t, "GET", "/things/"+c.id, "", "Authorization: Bearer "+c.key).WantError(c.status, c.message)
		})
	}
	t.Run("validation", func(t *testing.T) {
		f.do(t, "GET", "/things/too-long", "", "Authorization: Bearer member").WantIssues("id", "id: expected length <= 5")
	})
	t.Run("all well", func(t *testing.T) {
		f.do(t, "GET", "/things/1", "", "Authorization: Bearer member").WantJSON(200, `{"id":"1","org":"acme"}`)
	})
}
