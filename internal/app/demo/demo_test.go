package demo_test

import (
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/demo"
)

// TestStories: whatever the weekday and the hour at which the demo is
// filled, each skill gets the status that it is meant to show.
func TestStories(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	sunday := time.Date(2026, 11, 15, 0, 30, 0, 0, time.UTC)
	for hours := 0; hours < 7*24; hours += 13 {
		now := sunday.Add(time.Duration(hours) * time.Hour)
		for _, thin := range []int{0, 2, 8} { // 2 and 8 are what tests of the whole fill; of 8, only what fires counts
			all, records := demo.Verdicts(now, thin)
			if thin == 0 && (records < 40_000 || records > 50_000) {
				t.Errorf("%s: %d records, want 40,000 to 50,000", now, records)
			}
			for name, verdicts := range all {
				if got, want := status(verdicts), stories[name]; got != want && thin <= 2 {
					t.Errorf("%s, thin %d: %s is %s, want %s", now.Format(time.RFC1123), thin, name, got, want)
				}
			}
			if len(all) != 12 {
				t.Errorf("%d skills are graded, want 12", len(all))
			}
			rate, n := mean(all["invoice-reader"], 7*day)
			if rate >= .6 || n < 5 {
				t.Errorf("%s, thin %d: invoice-reader passes %.2f of %d this week: no alert", now.Format(time.RFC1123), thin, rate, n)
			}
			if _, n := mean(all["meeting-minutes"], 19*day); n != 0 {
				t.Errorf("meeting-minutes has %d gradings in 19 days, want none", n)
			}
		}
	}
}

// stories has the status that each skill is meant to show.
var stories = map[string]string{
	"api-docs": "healthy", "csv-cleaner": "healthy", "dependency-upgrade": "critical", "incident-timeline": "unknown",
	"invoice-reader": "warning", "log-triage": "healthy", "meeting-minutes": "healthy", "pdf-forms": "healthy",
	"release-notes": "healthy", "slide-deck": "healthy", "sql-review": "warning", "test-writer": "healthy",
}

func status(verdicts []demo.Verdict) string {
	rate, n := mean(verdicts, 30*24*time.Hour)
	switch {
	case n < 5:
		return "unknown"
	case rate < .5:
		return "critical"
	case rate < .8:
		return "warning"
	}
	return "healthy"
}

func mean(verdicts []demo.Verdict, age time.Duration) (rate float64, n int) {
	for _, v := range verdicts {
		if v.Age < age {
			rate += v.PassRate
			n++
		}
	}
	return rate / float64(max(n, 1)), n
}
