package format_test

import (
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

func share(f float64) *float64 { return &f }

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{0.875, "88 %"}, {share(0.5), "50 %"}, {(*float64)(nil), "–"}, {1.0, "100 %"}, {0.996, "99.6 %"}, {0.004, "0.4 %"}, {0.0, "0 %"},
	} {
		if got := strings.ReplaceAll(format.Percent(c.value), "\u202f", " "); got != c.want {
			t.Errorf("percent of %v is %q, want %q", c.value, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[int64]string{0: "0", 999: "999", 1000: "1 000", -1234567: "-1 234 567"} {
		got, err := format.Number(value)
		if got = strings.ReplaceAll(got, "\u202f", " "); err != nil || got != want {
			t.Errorf("%d is %q, %v, want %q", value, got, err, want)
		}
	}
	if _, err := format.Number("1"); err == nil {
		t.Error("a text is a number")
	}
}

func TestPoints(t *testing.T) {
	for want, change := range map[string]*float64{"–": nil, "▲ +12": share(0.12), "▼ -7": share(-0.07)} {
		if got := format.Points(change); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestBasisText(t *testing.T) {
	t.Parallel()
	rates := func(of basis.Basis, sessions map[basis.Basis]int64) basis.Rates {
		return basis.Rates{Basis: &of, PassRate: map[basis.Basis]float64{basis.Person: .9, basis.Outcome: .5}, Sessions: sessions}
	}
	for want, r := range map[string]basis.Rates{
		"":                    {},
		"graded by people":    rates(basis.Person, map[basis.Basis]int64{basis.Person: 2}),
		"reported by clients": rates(basis.Pushed, map[basis.Basis]int64{basis.Pushed: 2}),
		"judged by a model":   rates(basis.Judge, map[basis.Basis]int64{basis.Judge: 2}),
		"from outcomes":       rates(basis.Outcome, map[basis.Basis]int64{basis.Outcome: 2}),
		"mixed: graded by people 90\u202f% (10 sessions), from outcomes 50\u202f% (1 session)": rates(
			basis.Mixed, map[basis.Basis]int64{basis.Person: 10, basis.Outcome: 1}),
	} {
		if got := format.Basis(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, r := range map[string]basis.Rates{
		"–":                     {},
		"judge":                 rates(basis.Judge, map[basis.Basis]int64{basis.Judge: 2}),
		"people 10, outcomes 1": rates(basis.Mixed, map[basis.Basis]int64{basis.Person: 10, basis.Outcome: 1}),
	} {
		if got := format.BasisWords(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAgreementText(t *testing.T) {
	t.Parallel()
	if got, want := format.Agreement(grades.Calibration{}), "the judge is not compared with people yet"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	share := 8.0 / 9
	got := format.Agreement(grades.Calibration{Pairs: 9, Agreement: &share, Interval: &[2]float64{.56, .98}})
	if want := "the judge agrees with people in 8 of 9 sessions (56–98\u202f%)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		age  time.Duration
		want string
	}{
		{0, "just now"},
		{59 * time.Second, "just now"},
		{-59 * time.Second, "just now"},
		{time.Minute, "1 min ago"},
		{59*time.Minute + 59*time.Second, "59 min ago"},
		{time.Hour, "1 h ago"},
		{24*time.Hour - 1, "23 h ago"},
		{24 * time.Hour, "1 day ago"},
		{71 * time.Hour, "2 days ago"},
		{30*24*time.Hour - 1, "29 days ago"},
		{30 * 24 * time.Hour, "2026-03-01"},
		{-2 * time.Hour, "in 2 h"},
		{-7*24*time.Hour + time.Minute, "in 7 days"},
		{-6*24*time.Hour - 11*time.Hour, "in 6 days"},
		{-24*time.Hour + time.Second, "in 1 day"},
		{-59*time.Minute - 40*time.Second, "in 1 h"},
		{-31 * 24 * time.Hour, "2026-05-01"},
	} {
		if got := format.Ago(now.Add(-c.age), now); got != c.want {
			t.Errorf("%v: %q, want %q", c.age, got, c.want)
		}
	}
}

// TestTime: the exact time is in the element, whatever the text.
func TestTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for name, got := range map[string]string{
		"ago": string(format.Time(at)), "day": string(format.Day(&at)), "moment": string(format.Moment(at)),
	} {
		text := map[string]string{"ago": "2020-01-02", "day": "2020-01-02", "moment": "2020-01-02 02:04 UTC"}[name]
		want := `<time datetime="2020-01-02T02:04:05Z" data-format="` + name + `" title="2020-01-02 02:04:05 UTC">` + text + `</time>`
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, got := range []string{string(format.Time((*time.Time)(nil))), string(format.Day(time.Time{})), string(format.Moment(nil))} {
		if !strings.Contains(got, "never") {
			t.Errorf("no time is %q", got)
		}
	}
}

// TestReason: an alert's rollback has a link in place of an id, and what people write is text.
func TestReason(t *testing.T) {
	t.Parallel()
	const id = "01a1e8fc-e16c-7cdd-95e9-b4444754e878"
	written := "fails on <b>empty</b> files"
	for _, c := range []struct {
		why  any
		want string
	}{
		{"alert " + id, `by <a href="/alerts/` + id + `">an alert</a>`},
		{"alert " + id + " again", "alert " + id[:14] + "…"},
		{`alert "><script>`, `alert &#34;&gt;&lt;script&gt;`},
		{&written, "fails on &lt;b&gt;empty&lt;/b…"},
	} {
		if got := string(format.Reason(21, c.why)); got != c.want {
			t.Errorf("%v: %q, want %q", c.why, got, c.want)
		}
	}
}
