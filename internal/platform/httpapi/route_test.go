package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

func TestUnknownRoute(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	for _, c := range []struct{ method, path, message string }{
		{"GET", "/", "No such route: GET /"},
		{"GET", "/nothing/here", "No such route: GET /nothing/here"},
		{"POST", "/things/1/parts", "No such route: POST /things/1/parts"},
		{"GET", "/things/1//", "No such route: GET /things/1/"},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			f.do(t, c.method, c.path, "", "Authorization: ").WantError(404, c.message)
		})
	}
}

func TestWrongMethod(t *testing.T) {
	f := newFrame(t, nil, func(a *httpapi.API) {
		mountThings(a)
		a.Handle("GET /healthz", nil, http.NotFoundHandler())
	})
	for _, c := range []struct{ method, path, allow string }{
		{"DELETE", "/things", "GET, HEAD, POST"},
		{"POST", "/things/1", "GET, HEAD, PATCH, DELETE"},
		{"GET", "/hand-checked", "POST"},
		{"OPTIONS", "/things/", "GET, HEAD, POST"},
		{"BREW", "/things", "GET, HEAD, POST"},
		{"POST", "/openapi.json", "GET, HEAD"},
		{"POST", "/healthz", "GET, HEAD"},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			a := f.do(t, c.method, c.path, "", "Authorization: ")
			a.WantError(405, c.method+" is not allowed here; allowed: "+c.allow)
			a.WantHeader("Allow", c.allow)
		})
	}
}

func TestTrailingSlash(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	f.do(t, "GET", "/things/1/", "").WantJSON(200, `{"id":"1","org":"acme"}`)
	f.do(t, "POST", "/things/", `{"name":"x"}`).WantJSON(201, `{"name":"x"}`)
	f.do(t, "GET", "/things/?page=2", "").WantJSON(200, `{"offset":20,"q":"","pagination":{"page":2,"per_page":20,"total":42}}`)
	f.do(t, "PATCH", "/things/a%2Fb/", "").WantJSON(200, `{"id":"a/b","note":null}`)
}

func TestHead(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	for path, status := range map[string]int{"/things/1": 200, "/things/none": 404, "/docs": 200, "/openapi.json": 200, "/hand-checked": 405} {
		a := f.do(t, "HEAD", path, "")
		if a.Status != status || string(a.Body) != "" {
			t.Errorf("HEAD %s: status %d, body %q; want %d and no body", path, a.Status, a.Body, status)
		}
	}
}

func TestNoBody(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	a := f.do(t, "DELETE", "/things/1", "")
	if a.Status != 204 || string(a.Body) != "" {
		t.Errorf("status %d, body %q; want 204 and no body", a.Status, a.Body)
	}
	a.WantHeader("Content-Type", "")
}

// upserted decides for itself whether it was made or found.
type upserted struct {
	New bool `json:"new"`
}

func (u upserted) HTTPStatus() int {
	if u.New {
		return http.StatusCreated
	}
	return http.StatusOK
}

func TestOutputDecidesTheStatus(t *testing.T) {
	type input struct {
		New bool `query:"new"`
	}
	f := newFrame(t, nil, func(a *httpapi.API) {
		httpapi.Add(a, func(_ context.Context, in input) (upserted, error) { return upserted(in), nil },
			httpapi.Route{Method: "PUT", Path: "/things", Status: 202})
	})
	f.do(t, "PUT", "/things?new=true", "").WantJSON(201, `{"new":true}`)
	f.do(t, "PUT", "/things?new=false", "").WantJSON(200, `{"new":false}`)
}

// download streams a file, or fails before the first byte, or after it.
func download(_ context.Context, in idInput) (httpapi.Stream, error) {
	if in.ID == "none" {
		return nil, fault.New(fault.NotFound, "File not found")
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "for %s\n", access.From(r.Context()).OrgID)
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		if in.ID == "bad" {
			panic("disk on fire")
		}
		fmt.Fprint(w, "end\n")
	}, nil
}

func mountDownload(a *httpapi.API) {
	httpapi.Add(a, download, httpapi.Route{
		Method: "GET", Path: "/files/{id}", Produces: []httpapi.Media{{Type: "text/plain"}},
	})
}

func TestStream(t *testing.T) {
	f := newFrame(t, nil, mountDownload)
	a := f.do(t, "GET", "/files/1", "", "Accept: text/plain")
	if a.Status != 200 || string(a.Body) != "for acme\nend\n" {
		t.Errorf("status %d, body %q", a.Status, a.Body)
	}
	a.WantHeader("Content-Type", "text/plain")
	a.WantHeader("X-Content-Type-Options", "nosniff")

	f.do(t, "GET", "/files/none", "", "Accept: text/plain").WantError(404, "File not found")
	f.do(t, "GET", "/files/1", "", "Authorization: ").WantHeader("WWW-Authenticate", "Bearer")
}

// TestStreamBreaksOff shows the client that the answer is not whole: nothing
// else can be said once it has begun.
func TestStreamBreaksOff(t *testing.T) {
	f := newFrame(t, nil, mountDownload)
	req, err := http.NewRequest(http.MethodGet, f.Server.URL+"/files/bad", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer owner")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("read %q as if it were whole", got)
	}
	f.waitForLog(t, "disk on fire")
	f.waitForLog(t, `msg=request`)
	if got := f.counts(t)["whetstone_http_requests_total GET /files/{id} 200"]; got != 1 {
		t.Errorf("counted %v times, want once", got)
	}
}

func TestPlainHandlerIsServed(t *testing.T) {
	f := newFrame(t, nil, func(a *httpapi.API) {
		a.Handle("GET /healthz", nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
		a.Handle("GET /panics", nil, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret") }))
	})
	if a := f.do(t, "GET", "/healthz", "", "Authorization: "); a.Status != 200 || string(a.Body) != "ok" {
		t.Errorf("status %d, body %q", a.Status, a.Body)
	}
	f.do(t, "GET", "/panics", "", harmlessID).WantError(500, "Internal error; request proxy-7_A")
}

func TestRoutes(t *testing.T) {
	f := newFrame(t, nil, mountDownload)
	want := []httpapi.Route{{Method: "GET", Path: "/files/{id}", Status: 200, Produces: []httpapi.Media{{Type: "text/plain"}}}}
	if diff := cmp.Diff(want, f.API.Routes()); diff != "" {
		t.Error(diff)
	}
}
