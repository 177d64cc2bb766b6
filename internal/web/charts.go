package web

// A skill's days are drawn as a chart with axes, or as a sparkline.

import (
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/web/format"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// A Mark is a moment on a chart: a version became current. Callers set Date and
// Label; the rest is computed.
type Mark struct {
	Date   string // as in the days
	Label  string
	X      float64
	Anchor string // of the label
}

// A lineChart shows days: the 7-day pass rate with its confidence interval, the sessions
// as bars, and the publishes as marks. It is as wide as its page and always as high:
// what is across is in percent of the width, what is down in pixels.
type lineChart struct {
	Height, Top, Bottom, BarTop, BarBase float64

	PlotWidth, PlotHeight float64 // the units of Line and Band, which are stretched
	Line, Band            string
	Dots                  []dot
	Bars                  []chartBar
	Marks                 []Mark
	Grid                  []gridLine
	Ticks                 []tick
	Days                  []chartDay
	MostSessions          int64
	Known                 bool // there is a graded session
	From, To              string
	Label                 string // the chart as text, for screen readers
}

// A dot is the pass rate of a single day.
type dot struct{ X, Y float64 }

// A chartBar is the sessions of a day. Other charts use it for marked areas, too.
type chartBar struct{ X, Y, Width, Height float64 }

// A gridLine is a line of the scale of pass rates.
type gridLine struct {
	Y    float64
	Text string
}

// A tick is a date on the axis.
type tick struct {
	X            float64
	Text, Anchor string
}

// A chartDay is a row of the chart's table, and a column of the chart. The table is for
// people who cannot see the chart, and for copying.
type chartDay struct {
	Date     string
	PassRate *float64
	Graded   int64
	Sessions int64
	Mark     string
	Link     string // to its sessions
	Tip      string // all that is known of it, in lines
	X, Width float64
}

const (
	chartHeight = 282.0
	chartTop    = 28.0
	chartBottom = 188.0 // of the rates
	barTop      = 222.0
	barBase     = 258.0
	plotWidth   = 1000.0
	labelWidth  = 8.0               // percent that a version number takes
	smoothDays  = alerts.WindowDays // so that the line is what alerts evaluate
)

// newChart draws days, oldest first. Those with sessions link to what link returns.
// Without days there is an empty frame, and the page says why.
func newChart(days []overview.Day, marks []Mark, link func(day time.Time) string) lineChart {
	c := lineChart{
		Height: chartHeight, Top: chartTop, Bottom: chartBottom, BarTop: barTop, BarBase: barBase,
		PlotWidth: plotWidth, PlotHeight: chartBottom - chartTop,
	}
	if len(days) == 0 {
		return c
	}
	c.From, c.To = days[0].Date, days[len(days)-1].Date
	for _, rate := range []float64{1, 0.75, 0.5, 0.25, 0} {
		c.Grid = append(c.Grid, gridLine{Y: chartTop + rateY(rate), Text: format.Percent(rate)})
	}
	c.drawRates(days)
	c.drawBars(days)
	c.drawTicks(days)
	c.addDays(days, marks, link)
	// After addDays, which puts the marks on their days.
	c.drawMarks()
	c.Label = c.describe(days)
	return c
}

// dayX is the middle of a day's column in percent. The middle of a column, so that
// points, bars and ticks of a day are above each other.
func dayX(i, n int) float64 { return 100 * (float64(i) + 0.5) / float64(n) }

// rateY is where a rate is below the top of the plot.
func rateY(rate float64) float64 { return (1 - rate) * (chartBottom - chartTop) }

// drawRates draws the pass rate over seven days, weighted by sessions, since single
// days are mostly noise, and the single days as dots.
func (c *lineChart) drawRates(days []overview.Day) {
	var line, upper pen
	var lower []dot
	for i := range days {
		x := dayX(i, len(days))
		if p := days[i].PassRate; p != nil {
			c.Dots = append(c.Dots, dot{x, chartTop + rateY(*p)})
		}
		rate, graded := smoothed(days, i)
		if graded == 0 {
			continue
		}
		c.Known = true
		low, high := stats.Wilson(rate, graded)
		line.To(x*plotWidth/100, rateY(rate))
		upper.To(x*plotWidth/100, rateY(high))
		lower = append(lower, dot{x * plotWidth / 100, rateY(low)})
	}
	if !c.Known {
		return
	}
	line.Dot()
	// The band is one closed path: along the upper ends and back along the lower ones.
	for i := len(lower) - 1; i >= 0; i-- {
		upper.To(lower[i].X, lower[i].Y)
	}
	c.Line, c.Band = line.String(), upper.String()+"z"
}

// smoothed is the pass rate of the seven days up to one, weighted by graded
// sessions: the mean of the days' rates would count a day of one session like one of
// a hundred.
func smoothed(days []overview.Day, at int) (rate float64, graded int) {
	sum := 0.0
	for _, d := range days[max(0, at-smoothDays+1) : at+1] {
		if d.PassRate != nil {
			sum += *d.PassRate * float64(d.Graded)
			graded += int(d.Graded)
		}
	}
	if graded == 0 {
		return 0, 0
	}
	return sum / float64(graded), graded
}

// trendSpark draws the 7-day pass rates of days as a sparkline.
func trendSpark(days []overview.Day) spark {
	rates := make([]*float64, len(days))
	for i := range rates {
		if rate, graded := smoothed(days, i); graded > 0 {
			rates[i] = &rate
		}
	}
	return newSpark(rates)
}

// drawBars scales the sessions to the busiest day; MostSessions is the label of its
// top.
func (c *lineChart) drawBars(days []overview.Day) {
	for _, d := range days {
		c.MostSessions = max(c.MostSessions, d.Sessions)
	}
	step := 100 / float64(len(days))
	for i, d := range days {
		if d.Sessions == 0 {
			continue
		}
		height := (barBase - barTop) * float64(d.Sessions) / float64(c.MostSessions)
		c.Bars = append(c.Bars, chartBar{
			X: dayX(i, len(days)) - step*0.35, Y: barBase - height, Width: step * 0.7,
			Height: height,
		})
	}
}

// drawTicks writes about seven dates, the last day among them. It counts from the
// end, so that today always has one.
func (c *lineChart) drawTicks(days []overview.Day) {
	step := max(1, (len(days)+5)/6)
	for i, d := range days {
		if (len(days)-1-i)%step != 0 {
			continue
		}
		c.Ticks = append(c.Ticks, newTick(dayX(i, len(days)), dateText(d.Date, "Jan 2")))
	}
}

// newTick keeps the text inside.
func newTick(x float64, text string) tick {
	t := tick{X: x, Text: text, Anchor: "middle"}
	switch {
	case x < 4:
		t.Anchor = "start"
	case x > 96:
		t.Anchor = "end"
	}
	return t
}

// dateText formats the date of a day.
func dateText(date, layout string) string {
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return at.Format(layout)
}

// addDays makes the rows of the table. Several versions of a day share one mark.
func (c *lineChart) addDays(days []overview.Day, marks []Mark, link func(day time.Time) string) {
	labels := map[string][]string{}
	for _, m := range marks {
		labels[m.Date] = append(labels[m.Date], m.Label)
	}
	width := 100 / float64(len(days))
	for i, d := range days {
		shown := chartDay{
			Date: d.Date, PassRate: d.PassRate, Graded: d.Graded, Sessions: d.Sessions, Mark: strings.Join(labels[d.Date], ", "),
			X: width * float64(i), Width: width,
		}
		if at, err := time.Parse(time.DateOnly, d.Date); err == nil && d.Sessions > 0 {
			shown.Link = link(at)
		}
		shown.Tip = shown.tip(smoothed(days, i))
		c.Days = append(c.Days, shown)
	}
}

// tip says what is known of the day, and of the seven up to it.
func (d chartDay) tip(rate float64, graded int) string {
	lines := []string{dateText(d.Date, "Mon, Jan 2, 2006")}
	if graded > 0 {
		low, high := stats.Wilson(rate, graded)
		lines = append(lines, fmt.Sprintf("7-day pass rate %s (%s), %d graded", format.Percent(rate),
			format.Interval(&[2]float64{low, high}), graded))
	}
	if d.PassRate != nil {
		lines = append(lines, fmt.Sprintf("That day %s, %d graded", format.Percent(*d.PassRate), d.Graded))
	}
	sessions := "No session"
	if d.Sessions > 0 {
		sessions, _ = format.Plural(d.Sessions, "session", "sessions") // it is a number
	}
	lines = append(lines, sessions)
	if d.Mark != "" {
		lines = append(lines, d.Mark+" became current")
	}
	return strings.Join(lines, "\n")
}

// drawMarks omits labels that would overlap. Those near an edge stay inside.
func (c *lineChart) drawMarks() {
	last := -100.0
	for i, d := range c.Days {
		if d.Mark == "" {
			continue
		}
		m := Mark{Date: d.Date, Label: d.Mark, X: dayX(i, len(c.Days)), Anchor: "middle"}
		switch {
		case m.X < labelWidth/2:
			m.Anchor = "start"
		case m.X > 100-labelWidth/2:
			m.Anchor = "end"
		}
		if m.X-last < labelWidth {
			// The mark itself stays: its day has the label in the table and the tip.
			m.Label = ""
		} else {
			last = m.X
		}
		c.Marks = append(c.Marks, m)
	}
}

// describe puts the chart into words, for screen readers: its ends and its marks.
func (c *lineChart) describe(days []overview.Day) string {
	if !c.Known {
		return fmt.Sprintf("No graded sessions from %s to %s.", c.From, c.To)
	}
	var first, last string
	for i := range days {
		rate, graded := smoothed(days, i)
		if graded == 0 {
			continue
		}
		if first == "" {
			first = format.Percent(rate)
		}
		last = format.Percent(rate)
	}
	text := fmt.Sprintf("7-day pass rate from %s to %s: it went from %s to %s.", c.From, c.To, first, last)
	for _, d := range c.Days {
		if d.Mark != "" {
			text += fmt.Sprintf(" %s became current on %s.", d.Mark, d.Date)
		}
	}
	return text
}
