package web

import (
	"cmp"
	"math"

	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// A columnChart shows a figure for each of a row of things, e.g. what days cost, as columns
// with a scale. It has the frame of a lineChart, and its script.
type columnChart struct {
	Head, Unit string // headings of the things and of the figures
	Open       string // what the link of a column says
	Unknown    string // what the table says of a figure that is not known; a dash if empty
	Label      string // the chart as text, for screen readers

	Height, Top, Base float64
	Grid              []gridLine
	Ticks             []tick
	Columns           []column
}

// A column is one thing: its bar, the place in which the pointer finds it, and its row of
// the table.
type column struct {
	chartBar
	From, Step  float64
	Name, Value string
	Link        string
}

// A point is a thing to be drawn. Short is its text on the axis. A nil value is unknown, and
// draws nothing.
type point struct {
	Name, Short, Link string
	Value             *float64
}

const (
	columnsHeight = 190.0
	columnsTop    = 28.0
	columnsBase   = 166.0
)

// draw draws points, in their order. most is the top of the scale, 0 for a round number above
// all values; show formats a figure.
func (c *columnChart) draw(points []point, most float64, show func(any) string) {
	c.Height, c.Top, c.Base = columnsHeight, columnsTop, columnsBase
	highest, at := 0.0, ""
	for _, p := range points {
		if p.Value != nil && *p.Value > highest {
			highest, at = *p.Value, p.Name
		}
	}
	if most == 0 {
		most = roundUp(highest)
	}
	for _, part := range []float64{1, .5, 0} {
		c.Grid = append(c.Grid, gridLine{Y: columnsBase - part*(columnsBase-columnsTop), Text: show(part * most)})
	}
	step, every := 100/float64(max(1, len(points))), max(1, (len(points)+5)/6)
	for i, p := range points {
		one := column{From: step * float64(i), Step: step, Name: p.Name, Value: cmp.Or(c.Unknown, format.None), Link: p.Link}
		if p.Value != nil {
			height := (columnsBase - columnsTop) * min(1, *p.Value/most)
			width := min(step*.7, 6)
			one.Value = show(*p.Value)
			one.chartBar = chartBar{X: dayX(i, len(points)) - width/2, Y: columnsBase - height, Width: width, Height: height}
		}
		c.Columns = append(c.Columns, one)
		if (len(points)-1-i)%every == 0 {
			c.Ticks = append(c.Ticks, newTick(dayX(i, len(points)), p.Short))
		}
	}
	c.Label = c.Unit + ": nothing yet"
	if at != "" {
		c.Label = c.Unit + " from " + points[0].Name + " to " + points[len(points)-1].Name + ", at most " + show(highest) + " (" + at + ")"
	}
}

// roundUp returns the next of 1, 2 and 5, and their tenfolds.
func roundUp(value float64) float64 {
	if value <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(value)))
	for _, times := range []float64{1, 2, 5} {
		if value <= times*unit {
			return times * unit
		}
	}
	return 10 * unit
}
