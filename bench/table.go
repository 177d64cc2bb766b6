package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// A row is one figure beside another: a peer's in the same run, or a limit.
type row struct {
	Name   string  `json:"name"`
	Figure float64 `json:"figure"`
	Unit   string  `json:"unit"`
	Beside string  `json:"beside"` // the peer, or "limit"
	Other  float64 `json:"other"`  // its figure
	// AtLeast and AtMost bound figure/other; 0 means that nothing is wanted.
	AtLeast float64 `json:"at_least,omitempty"`
	AtMost  float64 `json:"at_most,omitempty"`
}

// limit is the peer of a figure that is measured against a fixed number.
const limit = "limit"

func (r row) ratio() float64 { return r.Figure / r.Other }

// A verdict is what came of a row.
type verdict string

const (
	shown   verdict = "-" // nothing was wanted
	ok      verdict = "ok"
	missed  verdict = "MISSED"
	failed  verdict = "FAILED"  // the benchmark did not run to its end
	skipped verdict = "SKIPPED" // a peer is not installed
)

func (r row) verdict() verdict {
	switch {
	case r.AtLeast == 0 && r.AtMost == 0:
		return shown
	case r.AtLeast > 0 && !(r.ratio() >= r.AtLeast), r.AtMost > 0 && !(r.ratio() <= r.AtMost): // NaN misses
		return missed
	}
	return ok
}

func (r row) wanted() string {
	switch {
	case r.AtLeast > 0:
		return fmt.Sprintf(">= %g", r.AtLeast)
	case r.AtMost > 0:
		return fmt.Sprintf("<= %g", r.AtMost)
	}
	return ""
}

// errMissing says that a part of the machine is missing that a benchmark needs.
var errMissing = errors.New("not installed")

// A table collects the rows of a run.
type table struct {
	Cores int    `json:"cores"`
	Lines []line `json:"rows"`
	// requireAll makes a missing peer a failure.
	requireAll bool
}

// A line is a row with its verdict, or why there is none.
type line struct {
	row
	Ratio   float64 `json:"ratio"`
	Verdict verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
}

func (t *table) add(name string, rows []row, err error) {
	for _, r := range rows {
		t.Lines = append(t.Lines, line{row: r, Ratio: r.ratio(), Verdict: r.verdict()})
	}
	switch {
	case errors.Is(err, errMissing) && !t.requireAll:
		t.Lines = append(t.Lines, line{row: row{Name: name}, Verdict: skipped, Reason: err.Error()})
	case err != nil:
		t.Lines = append(t.Lines, line{row: row{Name: name}, Verdict: failed, Reason: err.Error()})
	}
}

// good reports whether every benchmark met its limits. One that was skipped is
// no failure: the table shows it.
func (t *table) good() bool {
	for _, l := range t.Lines {
		if l.Verdict == missed || l.Verdict == failed {
			return false
		}
	}
	return true
}

func (t *table) print(out io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(t)
	}
	fmt.Fprintf(out, "%d cores\n", t.Cores)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tfigure\tpeer or limit\tratio\twanted\tverdict")
	for _, l := range t.Lines {
		if l.Reason != "" {
			fmt.Fprintf(w, "%s\t\t\t\t\t%s\n", l.Name, l.Verdict)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%s\t%s\t%s\n", l.Name, amount(l.Figure, l.Unit),
			l.Beside, amount(l.Other, l.Unit), significant(l.Ratio), l.wanted(), l.Verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, l := range t.Lines {
		if l.Reason != "" {
			fmt.Fprintf(out, "%s %s: %s\n", l.Verdict, l.Name, l.Reason)
		}
	}
	return nil
}

func amount(figure float64, unit string) string {
	return strings.TrimSpace(significant(figure) + " " + unit)
}

// significant shows three digits, or all of those before the point.
func significant(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 {
		return fmt.Sprintf("%g", f)
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(f))))
	return fmt.Sprintf("%.*f", max(0, digits), f)
}
