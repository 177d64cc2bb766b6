package notify

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// An escaper writes a character so that its channel shows it as it is.
type escaper func(r rune) string

func asIs(r rune) string { return string(r) }

// quote prepares a text that we did not write: in one line, escaped, and no
// longer than the limit when that is done.
func (escape escaper) quote(s string, limit int) string {
	var b strings.Builder
	length, safe := 0, 0 // safe bytes leave a place for the mark of the cut
	for _, r := range oneLine(s) {
		unit := escape(r)
		length += utf8.RuneCountInString(unit)
		b.WriteString(unit)
		if length < limit {
			safe = b.Len()
		}
	}
	if length <= limit {
		return b.String()
	}
	return b.String()[:safe] + "…"
}

// oneLine replaces what breaks a line or turns its direction.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.Join(strings.Fields(s), " ")
}

// cut keeps at most limit characters.
func cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

// percent rounds down, so that a rate below a threshold never looks as if it
// had reached it.
func percent(share float64) string {
	return number(math.Floor(share*1000+1e-6)/10) + " %"
}

// exactPercent shows a threshold as it was set.
func exactPercent(share float64) string {
	return number(math.Round(share*1e8)/1e6) + " %"
}

func wholePercent(share float64) string { return number(math.Round(share*100)) + " %" }

// days rounds down to a tenth.
func days(d float64) string {
	d = math.Floor(d*10+1e-6) / 10
	if d == 1 {
		return "1 day"
	}
	return number(d) + " days"
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// minute is a time as people read it.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" }
