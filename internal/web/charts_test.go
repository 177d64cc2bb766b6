package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

func share(f float64) *float64 { return &f }

func chartLink(day time.Time) string { return "/sessions?since=" + day.Format(time.DateOnly) }

func TestSpark(t *testing.T) {
	if got := newSpark([]*float64{nil, nil}); got.Line != "" || got.Label != "no data" {
		t.Errorf("nothing known is drawn as %+v", got)
	}
	got := newSpark([]*float64{share(0), nil, share(1)})
	if got.Line != "M2.0 20.0L94.0 2.0" || got.Low {
		t.Errorf("a rise is drawn as %+v", got)
	}
	if got := newSpark([]*float64{share(0.25)}); got.Line != "M2.0 15.5h.1" || !got.Low {
		t.Errorf("one day is drawn as %+v", got)
	}
}

func TestChart(t *testing.T) {
	days := []overview.Day{{Date: "2026-01-01", Sessions: 4, Graded: 4, PassRate: share(1)}, {Date: "2026-01-02"}, {Date: "2026-01-03", Sessions: 2, Graded: 4, PassRate: share(0)}}
	c := newChart(days, []Mark{{Date: "2026-01-02", Label: "1.0.0"}, {Date: "2025-01-01", Label: "too old"}}, chartLink)
	label := strings.ReplaceAll(c.Label, "\u202f", " ")
	if want := "7-day pass rate from 2026-01-01 to 2026-01-03: it went from 100 % to 50 %. 1.0.0 became current on 2026-01-02."; label != want {
		t.Errorf("the chart says %q, want %q", label, want)
	}
	if len(c.Dots) != 2 || len(c.Bars) != 2 || len(c.Marks) != 1 || len(c.Days) != 3 || c.MostSessions != 4 {
		t.Errorf("drawn are %d dots, %d bars, %d marks, %d days", len(c.Dots), len(c.Bars), len(c.Marks), len(c.Days))
	}
	if c.Bars[0].Height != 2*c.Bars[1].Height {
		t.Errorf("4 sessions are %v high, 2 are %v", c.Bars[0].Height, c.Bars[1].Height)
	}
	if none := newChart(days[1:2], nil, chartLink); none.Known || none.Line != "" ||
		none.Label != "No graded sessions from 2026-01-02 to 2026-01-02." {
		t.Errorf("nothing known is drawn as %+v", none)
	}
	newChart(nil, nil, chartLink) // no days at all
}

// TestAxes: dates and versions stay inside, and never overlap.
func TestAxes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 7, 30, 90, 365} {
		days := make([]overview.Day, n)
		var marks []Mark
		for i := range days {
			days[i].Date = time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
			marks = append(marks, Mark{Date: days[i].Date, Label: fmt.Sprintf("1.%d.0", i)})
		}
		c := newChart(days, marks, chartLink)
		if len(c.Ticks) < min(n, 4) || len(c.Ticks) > 7 {
			t.Errorf("%d days have %d dates", n, len(c.Ticks))
		}
		last := -100.0
		for _, m := range c.Marks {
			if m.Label != "" && m.X-last < 8 {
				t.Errorf("%d days: the label %s is at %.1f %%, the one before at %.1f %%", n, m.Label, m.X, last)
			}
			if m.Label != "" {
				last = m.X
			}
			if m.Label != "" && (m.X < 4 && m.Anchor != "start" || m.X > 96 && m.Anchor != "end") {
				t.Errorf("%d days: the label at %.1f %% is anchored at its %s", n, m.X, m.Anchor)
			}
		}
	}
}

// TestTips: a day says all that is known of it.
func TestTips(t *testing.T) {
	t.Parallel()
	c := newChart([]overview.Day{
		{Date: "2026-01-01", Sessions: 4, Graded: 4, PassRate: share(1)}, {Date: "2026-01-02"},
	}, []Mark{{Date: "2026-01-02", Label: "1.0.0"}}, chartLink)
	for i, want := range []string{
		"Thu, Jan 1, 2026\n7-day pass rate 100 % (51–100 %), 4 graded\nThat day 100 %, 4 graded\n4 sessions",
		"Fri, Jan 2, 2026\n7-day pass rate 100 % (51–100 %), 4 graded\nNo session\n1.0.0 became current",
	} {
		if got := strings.ReplaceAll(c.Days[i].Tip, "\u202f", " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if c.Days[0].Link != "/sessions?since=2026-01-01" || c.Days[1].Link != "" {
		t.Errorf("the days link to %q and %q", c.Days[0].Link, c.Days[1].Link)
	}
}
