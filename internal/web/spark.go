package web

import (
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/web/format"
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
		// Days are equally far apart, also those without a value.
		x := sparkPad + (sparkWidth-2*sparkPad)*float64(i)/float64(max(1, len(values)-1))
		line.To(x, sparkHeight-sparkPad-*v*(sparkHeight-2*sparkPad))
		known, at = append(known, *v), append(at, x)
	}
	if len(known) == 0 {
		return spark{Label: "no data"}
	}
	line.Dot()
	last := len(known) - 1
	return spark{
		Line:  line.String(),
		Area:  fmt.Sprintf("%sL%.1f %.1fL%.1f %.1fz", line.String(), at[last], sparkHeight, at[0], sparkHeight),
		Label: fmt.Sprintf("from %s to %s", format.Percent(known[0]), format.Percent(known[last])),
		Low:   known[last] < 0.5,
	}
}

// A pen builds the path of a line (the d attribute of SVG).
type pen struct{ b strings.Builder }

// To draws a line to a point, or begins there.
func (p *pen) To(x, y float64) {
	command := "L"
	if p.b.Len() == 0 {
		command = "M"
	}
	fmt.Fprintf(&p.b, "%s%.1f %.1f", command, x, y)
}

// Dot extends a line of a single point, which would be invisible. Round line caps
// then make a dot of it.
func (p *pen) Dot() {
	if strings.Count(p.b.String(), "L") == 0 {
		p.b.WriteString("h.1")
	}
}

// String is the path.
func (p *pen) String() string { return p.b.String() }
