package outbound_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2027, 12, 31, 23, 59, 30, 0, time.UTC)
	for value, want := range map[string]struct {
		wait time.Duration
		ok   bool
	}{
		"":                              {0, false},
		"soon":                          {0, false},
		"-1":                            {0, false},
		"NaN":                           {0, false},
		"0":                             {0, true},
		"30":                            {30 * time.Second, true},
		"0.5":                           {500 * time.Millisecond, true},
		"1e300":                         {24 * time.Hour, true},
		"Fri, 31 Dec 2027 23:59:59 GMT": {29 * time.Second, true},
		"Fri, 31 Dec 2027 23:59:00 GMT": {0, true},
		"Fri, 31 Dec 2060 23:59:59 GMT": {24 * time.Hour, true},
	} {
		wait, ok := outbound.RetryAfter(http.Header{"Retry-After": {value}}, now)
		if wait != want.wait || ok != want.ok {
			t.Errorf("%q: got %v, %t, want %v, %t", value, wait, ok, want.wait, want.ok)
		}
	}
}
