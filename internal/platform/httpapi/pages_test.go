package httpapi_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestHandleMissing: people get a page where there is none, programs the
// structured error.
func TestHandleMissing(t *testing.T) {
	f := newFrame(t, nil, func(a *httpapi.API) {
		mountThings(a)
		a.HandleMissing(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "a page")
		}))
	})
	const browser = "Accept: text/html,*/*;q=0.8"
	if a := f.do(t, "GET", "/nothing", "", browser); a.Status != 404 || string(a.Body) != "a page" {
		t.Errorf("a browser gets %d, %s, want the page", a.Status, a.Body)
	}
	f.do(t, "GET", "/nothing", "", "Accept: */*").WantError(404, "No such route: GET /nothing")
	f.do(t, "GET", "/api/v1/nothing", "", browser).WantError(404, "No such route: GET /api/v1/nothing")
	f.do(t, "DELETE", "/things", "", browser).WantError(405, "DELETE is not allowed here; allowed: GET, HEAD, POST")
}

func TestLimitOfPlainHandler(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		f := newFrame(t, db, func(a *httpapi.API) {
			route := httpapi.Route{Method: "GET", Path: "/page", Limit: &httpapi.Limit{Requests: 1, Per: 24 * time.Hour, By: httpapi.ByAddress}}
			a.Handle("GET /page", nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				err := a.Limit(w, r, route, access.Caller{})
				if fault.Is(err, fault.Limited) {
					w.WriteHeader(http.StatusTooManyRequests)
				}
				if err == nil {
					w.WriteHeader(http.StatusNoContent)
				}
			}))
		})
		for i, want := range []int{204, 429} {
			if a := f.do(t, "GET", "/page", ""); a.Status != want {
				t.Errorf("request %d: %d, want %d", i+1, a.Status, want)
			}
		}
	})
}
