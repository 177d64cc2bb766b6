package schedules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/prove/schedules"
)

func TestCron(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, after, want string }{
		{"0 3 * * *", "2026-11-19T02:59:59Z", "2026-11-19T03:00:00Z"},
		{"0 3 * * *", "2026-11-19T03:00:00Z", "2026-11-20T03:00:00Z"},
		{"*/7 * * * *", "2026-11-19T10:55:00Z", "2026-11-19T10:56:00Z"},
		{"*/7 * * * *", "2026-11-19T10:56:00Z", "2026-11-19T11:00:00Z"},
		{"5,10-20/5,50 8 * * *", "2026-11-19T08:10:30Z", "2026-11-19T08:15:00Z"},
		{"5,10-20/5,50 8 * * *", "2026-11-19T08:20:00Z", "2026-11-19T08:50:00Z"},
		{"59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"},
		{"0 0 29 2 *", "2026-11-19T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 31 2,4,12 *", "2026-11-19T00:00:00Z", "2026-12-31T00:00:00Z"},
		{"0 0 * * 0", "2026-11-19T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"0 0 * * 7", "2026-11-19T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"0 0 * * 5-7", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"0 0 * * Mon-FRI", "2026-11-20T00:00:00Z", "2026-11-23T00:00:00Z"},
		{"0 0 * feb *", "2026-11-19T00:00:00Z", "2027-02-01T00:00:00Z"},
		{"0 0 1 * 1", "2026-11-19T00:00:00Z", "2026-11-23T00:00:00Z"}, // either day
		{"0 0 */2 * 1", "2026-11-19T00:00:00Z", "2026-11-23T00:00:00Z"},
		{"  0   12  *  *  * ", "2026-11-19T12:00:00+02:00", "2026-11-19T12:00:00Z"},
	} {
		cron, err := schedules.ParseCron(c.cron)
		if err != nil {
			t.Errorf("%q: %v", c.cron, err)
			continue
		}
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := cron.Next(after).Format(time.RFC3339); got != c.want {
			t.Errorf("%q after %s is %s, want %s", c.cron, c.after, got, c.want)
		}
	}
}

func TestCronRefuses(t *testing.T) {
	t.Parallel()
	for cron, want := range map[string]string{
		"":                        "needs 5 fields",
		"@daily":                  "needs 5 fields",
		"0 3 * *":                 "has 4",
		"0 0 3 * * *":             "has 6",
		"60 3 * * *":              `minute "60": "60" must be 0 to 59`,
		"0 24 * * *":              "hour",
		"0 3 0 * *":               "day of month",
		"0 3 * 13 *":              "month",
		"0 3 * * 8":               "day of week",
		"0 3 * * someday":         "day of week",
		"-5 3 * * *":              "minute",
		"+5 3 * * *":              "minute",
		"1-2-3 3 * * *":           "minute",
		"20-10 3 * * *":           "ends before it begins",
		"*/0 3 * * *":             "the step after /",
		"*/x 3 * * *":             "the step after /",
		"*/99999999999 3 * * *":   "the step after /",
		"5/15 3 * * *":            "needs * or a range",
		"1,,2 3 * * *":            "minute",
		"* 3 * * ?":               "day of week",
		"0 0 31 2 *":              "no month has the day 31",
		"0 0 30,31 feb *":         "no month has the day 30,31",
		"0 0 31 4,6,9,11 *":       "no month has the day 31",
		strings.Repeat("1,", 200): "longer than 200",
	} {
		_, err := schedules.ParseCron(cron)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", cron, err, want)
		}
	}
	// With a day of the week, either day matches.
	if _, err := schedules.ParseCron("0 0 31 2 mon"); err != nil {
		t.Errorf("the Mondays of February: %v", err)
	}
}

func FuzzCron(f *testing.F) {
	for _, s := range []string{"0 3 * * *", "*/7 1-5 1,15 jan-mar 0-7/2", "0 0 31 2 *", "0 0 29 2 1"} {
		f.Add(s, int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, s string, unix int64) {
		c, err := schedules.ParseCron(s)
		if err != nil {
			return
		}
		after := time.Unix(unix%4_000_000_000, 0)
		next := c.Next(after)
		if next.IsZero() || !next.After(after) || next.Second() != 0 {
			t.Fatalf("%q after %s is %s", s, after, next)
		}
		if again := c.Next(next.Add(-time.Minute)); !again.Equal(next) {
			t.Errorf("%q: %s is due, but the minute before leads to %s", s, next, again)
		}
	})
}
