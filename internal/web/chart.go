package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/alerts"
	"github.com/whetstone-dev/whetstone/internal/overview"
	"github.com/whetstone-dev/whetstone/internal/stats"
)

// A spark is a sparkline: a small line chart without axes.
type spark struct {
	Line, Area string // paths; "" where nothing is known
	Label      string // the same as text, for screen readers
	Low        bool   // the last value is under half
}

const (
	sparkWidth  = 96.0
	sparkHeight = 22.0
	sparkPad    = 2.0
)

// newSpark draws shares from 0 to 1, oldest first; nil means unknown.
func newSpark(values []*float64) spark {
	var known, at []float64
	var line pen
	for i, v := range values {
		if v == nil {
			continue // the line continues at the next known day
		}
		x := sparkPad + (sparkWidth-2*sparkPad)*float64(i)/float64(max(1, len(values)-1))
		line.to(x, sparkHeight-sparkPad-*v*(sparkHeight-2*sparkPad))
		known, at = append(known, *v), append(at, x)
	}
	if len(known) == 0 {
		return spark{Label: "no data"}
	}
	line.dot()
	last := len(known) - 1
	return spark{
		Line:  line.String(),
		Area:  fmt.Sprintf("%sL%.1f %.1fL%.1f %.1fz", line.String(), at[last], sparkHeight, at[0], sparkHeight),
		Label: fmt.Sprintf("from %s to %s", percent(known[0]), percent(known[last])),
		Low:   known[last] < 0.5,
	}
}

// A pen builds the path of a line (the d attribute of SVG).
type pen struct{ b strings.Builder }

func (p *pen) to(x, y float64) {
	command := "L"
	if p.b.Len() == 0 {
		command = "M"
	}
	fmt.Fprintf(&p.b, "%s%.1f %.1f", command, x, y)
}

// dot extends a line of a single point, which would be invisible.
func (p *pen) dot() {
	if strings.Count(p.b.String(), "L") == 0 {
		p.b.WriteString("h.1")
	}
}

func (p *pen) String() string { return p.b.String() }

// A mark is a moment on a chart: a version became current.
type mark struct {
	Date  string // as in the days
	Label string
	X     float64
	Flip  bool // the label is on the left
}

// A chart shows a skill's days: the 7-day pass rate with its confidence interval,
// the sessions as bars, and the publishes as marks.
type chart struct {
	Width, Height   float64
	Top, Bottom     float64
	Line, Band      string
	Dots            []dot
	Bars            []bar
	Marks           []mark
	Grid            []gridLine
	From, To        string
	Left, Right     float64
	Label           string // the chart as text, for screen readers
	Days            []chartDay
	MostSessions    int64
	Known           bool
	BarTop, BarBase float64
}

type dot struct{ X, Y float64 }

type bar struct{ X, Y, Width, Height float64 }

type gridLine struct {
	Y    float64
	Text string
}

// A chartDay is a row of the chart's table.
type chartDay struct {
	Date     string
	PassRate *float64
	Graded   int64
	Sessions int64
	Mark     string
	Link     string  // to its sessions
	X, Width float64 // of its column
}

const (
	chartWidth  = 720.0
	chartHeight = 260.0
	chartLeft   = 44.0
	chartRight  = 708.0
	chartTop    = 26.0
	chartBottom = 176.0 // of the rates
	barTop      = 192.0
	barBase     = 236.0
	smoothDays  = alerts.WindowDays // so that the line is what alerts evaluate
)

// newChart draws the days of a skill, oldest first.
func newChart(skillID string, days []overview.Day, marks []mark) chart {
	c := chart{
		Width: chartWidth, Height: chartHeight, Top: chartTop, Bottom: chartBottom, Left: chartLeft, Right: chartRight,
		BarTop: barTop, BarBase: barBase,
	}
	if len(days) == 0 {
		return c
	}
	c.From, c.To = days[0].Date, days[len(days)-1].Date
	for _, rate := range []float64{1, 0.75, 0.5, 0.25, 0} {
		c.Grid = append(c.Grid, gridLine{Y: rateY(rate), Text: percent(rate)})
	}
	c.drawRates(days)
	c.drawBars(days)
	c.drawMarks(days, marks)
	c.linkDays(skillID)
	c.Label = c.describe(days)
	return c
}

// dayX is the middle of a day's column.
func dayX(i, n int) float64 {
	return chartLeft + (chartRight-chartLeft)*(float64(i)+0.5)/float64(n)
}

func rateY(rate float64) float64 { return chartBottom - rate*(chartBottom-chartTop) }

// drawRates draws the pass rate over seven days, weighted by sessions, since single
// days are mostly noise, and the single days as dots.
func (c *chart) drawRates(days []overview.Day) {
	var line, upper pen
	var lower []dot
	for i := range days {
		x := dayX(i, len(days))
		if p := days[i].PassRate; p != nil {
			c.Dots = append(c.Dots, dot{x, rateY(*p)})
		}
		rate, graded := smoothed(days, i)
		if graded == 0 {
			continue
		}
		c.Known = true
		low, high := stats.Wilson(rate, graded)
		line.to(x, rateY(rate))
		upper.to(x, rateY(high))
		lower = append(lower, dot{x, rateY(low)})
	}
	line.dot()
	// The band is one closed path: along the upper ends and back along the lower ones.
	for i := len(lower) - 1; i >= 0; i-- {
		upper.to(lower[i].X, lower[i].Y)
	}
	c.Line, c.Band = line.String(), upper.String()+"z"
	if !c.Known {
		c.Line, c.Band = "", ""
	}
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

func (c *chart) drawBars(days []overview.Day) {
	for _, d := range days {
		c.MostSessions = max(c.MostSessions, d.Sessions)
	}
	step := (chartRight - chartLeft) / float64(len(days))
	for i, d := range days {
		if d.Sessions == 0 {
			continue
		}
		height := (barBase - barTop) * float64(d.Sessions) / float64(c.MostSessions)
		c.Bars = append(c.Bars, bar{X: dayX(i, len(days)) - step*0.35, Y: barBase - height, Width: step * 0.7, Height: height})
	}
}

// drawMarks omits labels that would overlap, i.e. that are less than the width of a
// version number apart. Those near the right edge stand on the left of their mark.
func (c *chart) drawMarks(days []overview.Day, marks []mark) {
	labels := map[string][]string{}
	for _, m := range marks {
		labels[m.Date] = append(labels[m.Date], m.Label)
	}
	lastLabel := -100.0
	for i, d := range days {
		text := strings.Join(labels[d.Date], ", ")
		c.Days = append(c.Days,
			chartDay{Date: d.Date, PassRate: d.PassRate, Graded: d.Graded, Sessions: d.Sessions, Mark: text})
		if text == "" {
			continue
		}
		m := mark{Date: d.Date, Label: text, X: dayX(i, len(days)), Flip: i > len(days)*4/5}
		if m.X-lastLabel < 56 {
			m.Label = ""
		} else {
			lastLabel = m.X
		}
		c.Marks = append(c.Marks, m)
	}
}

// linkDays lets a click on a day show its sessions.
func (c *chart) linkDays(skillID string) {
	width := (chartRight - chartLeft) / float64(len(c.Days))
	for i := range c.Days {
		d := &c.Days[i]
		d.X, d.Width = dayX(i, len(c.Days))-width/2, width
		if at, err := time.Parse(time.DateOnly, d.Date); err == nil && d.Sessions > 0 {
			d.Link = sessionsOfDay(skillID, "", at)
		}
	}
}

func (c *chart) describe(days []overview.Day) string {
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
			first = percent(rate)
		}
		last = percent(rate)
	}
	text := fmt.Sprintf("7-day pass rate from %s to %s: it went from %s to %s.", c.From, c.To, first, last)
	for _, d := range c.Days {
		if d.Mark != "" {
			text += fmt.Sprintf(" %s became current on %s.", d.Mark, d.Date)
		}
	}
	return text
}
