package notify

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// An escaper escapes a character for a channel.
type escaper func(r rune) string

func noEscape(r rune) string { return string(r) }

// truncate sanitizes and escapes untrusted text, and truncates the result to
// limit characters without splitting an escape sequence.
func (escape escaper) truncate(s string, limit int) string {
	var b strings.Builder
	length, safe := 0, 0 // the first safe bytes leave room for an ellipsis
	for _, r := range text.PlainLine(s) {
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

// percent rounds down, so that a rate below the threshold is never shown as
// equal to it.
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

// minute formats a time for people.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" }
