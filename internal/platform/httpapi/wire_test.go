package httpapi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

func TestTimeMarshal(t *testing.T) {
	east := time.FixedZone("east", 2*60*60)
	for _, c := range []struct {
		given time.Time
		want  string
	}{
		{time.Date(2026, 1, 2, 3, 4, 5, 678_912_345, time.UTC), `"2026-01-02T03:04:05.678Z"`},
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), `"2026-01-02T03:04:05.000Z"`},
		{time.Date(2026, 1, 2, 1, 0, 0, 0, east), `"2026-01-01T23:00:00.000Z"`},
	} {
		if got := marshal(t, httpapi.Time(c.given)); got != c.want {
			t.Errorf("%v is %s, want %s", c.given, got, c.want)
		}
	}
	if got := marshal(t, httpapi.NullTime(nil)); got != "null" {
		t.Errorf("no time is %s, want null", got)
	}
}

func TestTimeUnmarshal(t *testing.T) {
	want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		given string
		ok    bool
	}{
		{`"2026-01-02T03:04:05Z"`, true},
		{`"2026-01-02T03:04:05.000000Z"`, true},
		{`"2026-01-02T08:34:05+05:30"`, true},
		{`"2026-01-01T20:04:05-07:00"`, true},
		{`"2026-01-02T05:04:05\u002B02:00"`, true},
		{`"2026-01-02T03:04:05"`, false},
		{`"2026-01-02"`, false},
		{`"2026-02-30T03:04:05Z"`, false},
		{`"soon"`, false},
		{`""`, false},
		{`1767323045`, false},
	} {
		var got httpapi.Time
		err := json.Unmarshal([]byte(c.given), &got)
		if c.ok != (err == nil) {
			t.Errorf("%s: %v", c.given, err)
		}
		if c.ok && !time.Time(got).Equal(want) {
			t.Errorf("%s is %v, want %v", c.given, time.Time(got), want)
		}
	}
	got := httpapi.Time(want)
	if err := json.Unmarshal([]byte("null"), &got); err != nil || !time.Time(got).Equal(want) {
		t.Errorf("null gives %v and %v, want no change", time.Time(got), err)
	}
}
