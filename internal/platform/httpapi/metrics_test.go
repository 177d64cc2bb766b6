package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// counts are the requests by route and status, as the registry shows them.
func (f *frame) counts(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			counts[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return counts
}

// TestMetrics counts by the route's pattern: paths are without number.
func TestMetrics(t *testing.T) {
	f := newFrame(t, nil, func(a *httpapi.API) {
		mountThings(a)
		mountDownload(a)
	})
	for i := range 3 {
		f.do(t, "GET", fmt.Sprintf("/things/%d", i), "")
		f.do(t, "GET", fmt.Sprintf("/nowhere/%d", i), "")
	}
	f.do(t, "GET", "/things/1/", "", "Authorization: ")
	f.do(t, "BREW", "/things/1", "")
	f.do(t, "POST", "/things", "{}")
	f.waitForLog(t, `route="POST /things"`)
	want := map[string]float64{
		"whetstone_http_requests_in_flight":                        0,
		"whetstone_http_requests_total GET /things/{id} 200":       3,
		"whetstone_http_requests_total GET /things/{id} 401":       1,
		"whetstone_http_requests_total POST /things 400":           1,
		"whetstone_http_requests_total other 404":                  3,
		"whetstone_http_requests_total other 405":                  1,
		"whetstone_http_request_duration_seconds GET /things/{id}": 4,
		"whetstone_http_request_duration_seconds POST /things":     1,
		"whetstone_http_request_duration_seconds other":            4,
	}
	if diff := cmp.Diff(want, f.counts(t)); diff != "" {
		t.Error(diff)
	}
}
