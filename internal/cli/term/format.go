package term

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// Plain replaces unprintable characters, terminal escape sequences among them, with
// spaces: names and descriptions come from other people and must neither move the
// cursor nor break a table.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// maxCell is the maximum width of a text in a table, in characters.
const maxCell = 60

// Cell truncates a text to one line that fits into a table, at maxCell characters.
func Cell(s string) string {
	line := text.OneLine(Plain(s))
	if short := text.TruncateRunes(line, maxCell); short == line {
		return line
	}
	return text.TruncateRunes(line, maxCell-3) + "..." // ASCII, for every terminal
}

// OrDash is Plain for a text that may be missing. It does not truncate.
func OrDash(s *string) string {
	if s == nil {
		return "-"
	}
	return Plain(*s)
}

// BasisWord names what a grade rests on: "reported" for what the API calls pushed, as on the
// pages, and a dash for none.
func BasisWord(basis *string) string {
	if basis != nil && *basis == "pushed" {
		return "reported"
	}
	return OrDash(basis)
}

// Size formats a number of bytes, e.g. "1.5 MiB". It knows no larger unit.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Count formats a number of things: "1 file", "2 files". The plural is formed with an
// s.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Percent formats a share of 1, e.g. 0.8 as "80%"; an unknown one (nil) is a dash.
func Percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", math.Round(100**share))
}

// Number formats a count; an unknown one (nil) is a dash, since it is not zero.
func Number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// Dollars formats an amount in US dollars; an unknown one (nil) is a dash.
func Dollars(amount *float64) string {
	if amount == nil {
		return "-"
	}
	return pricing.Format(*amount)
}

// Rate is Percent with the share's confidence interval, which shows how little a few
// observations prove: "80% (38% to 96%)".
func Rate(share *float64, interval *[2]float64) string {
	if share == nil || interval == nil {
		return Percent(share)
	}
	return fmt.Sprintf("%s (%s to %s)", Percent(share), Percent(&interval[0]), Percent(&interval[1]))
}

// Basis formats who graded the sessions behind a pass rate, with the rate of each
// basis: "judge 80% of 5, outcome 100% of 2". Without a graded session it is a dash.
func Basis(graded map[string]int64, rates map[string]float64) string {
	var parts []string
	// The most trusted basis first.
	for _, name := range []string{"person", "pushed", "judge", "outcome"} {
		if n := graded[name]; n > 0 {
			rate := rates[name]
			parts = append(parts, fmt.Sprintf("%s %s of %d", BasisWord(&name), Percent(&rate), n))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// Day formats a time as its date in UTC; a missing one (nil) is a dash.
func Day[T time.Time | api.Time](t *T) string {
	if t == nil {
		return "-"
	}
	return time.Time(*t).UTC().Format(time.DateOnly)
}

// Minute formats a time in UTC, e.g. "2026-03-01 12:00".
func Minute[T time.Time | api.Time](t T) string { return time.Time(t).UTC().Format("2006-01-02 15:04") }

// YesNo formats a boolean.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// PrintDiff prints a unified diff. Its lines may come from other people, so control
// characters are stripped.
func PrintDiff(w io.Writer, diff string, colour bool) {
	for line := range strings.Lines(diff) {
		begin, end := "", ""
		if colour {
			switch line[0] {
			case '-':
				begin, end = red, reset
			case '+':
				begin, end = green, reset
			case '@':
				begin, end = yellow, reset
			}
		}
		fmt.Fprintln(w, begin+Plain(strings.TrimRight(line, "\r\n"))+end)
	}
}
