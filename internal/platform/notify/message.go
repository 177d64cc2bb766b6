package notify

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// message is the text of a notice. Untrusted parts are escaped for the channel
// and truncated, so that title and lines fit into every channel's limits.
type message struct {
	title   string
	summary string // the title as a sentence
	lines   []line
	url     string
}

// line is a detail with a label, or a sentence without one.
type line struct{ label, text string }

// Limits of untrusted text, in characters.
const (
	maxName    = 80
	maxVersion = 80
	maxNote    = 500
)

func compose(n Notice, escape escaper) message {
	skill := escape.truncate(n.Skill, maxName)
	if skill == "" {
		skill = "all skills"
	}
	m := message{url: text.PlainLine(n.URL)}
	switch n.Type {
	case NoData:
		m.title, m.summary = noDataText(n, skill)
	case PassRateBelow:
		m.title, m.summary = passRateText(n, skill)
	case WorseThanPrevious, CostAbove, SilentFall:
		m.title, m.summary = comparisonText(n, skill, escape)
	}
	m.lines = detailLines(n, escape)
	return m
}

func passRateText(n Notice, skill string) (title, summary string) {
	rate := "unknown"
	if n.PassRate != nil {
		rate = percent(*n.PassRate)
	}
	// Round to what the user typed, e.g. 55.1 % and not 55.10000000000001 %.
	threshold := number(math.Round(n.Threshold*1e8)/1e6) + " %"
	switch n.Status {
	case Resolved:
		return "[resolved] " + skill + " pass rate " + rate + " (threshold " + threshold + ")",
			skill + ": the pass rate is " + rate + ". The threshold is " + threshold + "."
	case Reminder:
		return "[reminder] " + skill + " pass rate " + rate + " (below " + threshold + ")",
			skill + ": the pass rate is still " + rate + ", below the threshold of " + threshold + "."
	case Test:
		return "[test] " + skill + " pass rate alert (threshold " + threshold + ")",
			"This tests the alert on the pass rate of " + skill + " with the threshold " + threshold + "."
	default: // Firing
		return "[firing] " + skill + " pass rate " + rate + " (below " + threshold + ")",
			skill + ": the pass rate is " + rate + ", below the threshold of " + threshold + "."
	}
}

// comparisonText is the text of the types that compare a figure with another.
func comparisonText(n Notice, skill string, escape escaper) (title, summary string) {
	is, was := "unknown", "unknown"
	format := percent
	if n.Type == CostAbove {
		format = pricing.Format
	}
	if n.Measured != nil {
		is = format(*n.Measured)
	}
	if n.Reference != nil {
		was = format(*n.Reference)
	}
	var short, sentence string
	switch n.Type {
	case CostAbove:
		limit := pricing.Format(n.Threshold)
		short, sentence = "cost of a use "+is+" (limit "+limit+")", "a use costs "+is+" in the median. The limit is "+limit+"."
	case SilentFall:
		short = "used in " + is + " of offers (before " + was + ")"
		sentence = "agents use it in " + is + " of the sessions that offer it. It was " + was + " in the weeks before."
	case WorseThanPrevious, PassRateBelow, NoData:
		before := "the version before"
		if n.ReferenceVersion != "" {
			before = "version " + escape.truncate(n.ReferenceVersion, maxVersion)
		}
		short, sentence = "pass rate "+is+" ("+before+": "+was+")",
			"the pass rate of the current version is "+is+". That of "+before+" is "+was+"."
	}
	if n.Status == Test {
		return "[test] " + skill + ": " + string(n.Type) + " alert", "This tests the alert " + string(n.Type) +
			" on " + skill + "."
	}
	return "[" + string(n.Status) + "] " + skill + ": " + short, skill + ": " + sentence
}

func noDataText(n Notice, skill string) (title, summary string) {
	silent := "some days"
	if n.DaysSilent != nil {
		silent = days(*n.DaysSilent)
	}
	limit := "The limit is " + days(n.Threshold) + "."
	if n.Threshold == 0 {
		limit = "A session is expected every day (UTC)."
	}
	short := " (limit " + number(n.Threshold) + ")"
	switch n.Status {
	case Resolved:
		return "[resolved] " + skill + ": sessions again" + short,
			skill + ": sessions are recorded again. " + limit
	case Reminder:
		return "[reminder] " + skill + ": " + silent + " without sessions" + short,
			skill + ": still no sessions, for " + silent + " now. " + limit
	case Test:
		return "[test] " + skill + " no data alert" + short,
			"This tests the alert on missing sessions of " + skill + ". " + limit
	default: // Firing
		return "[no data] " + skill + ": " + silent + " without sessions" + short,
			skill + ": no sessions for " + silent + ". " + limit
	}
}

// detailLines returns the figures below the title.
func detailLines(n Notice, escape escaper) (lines []line) {
	add := func(label, text string) { lines = append(lines, line{label, text}) }
	if n.Status == Test {
		add("", "This is a test of the alert's channel. Nothing has happened.")
	}
	if n.PassRate != nil && n.Type != NoData {
		sample := count(n.SampleSize, "graded session")
		if n.Interval != nil {
			sample += "; the true pass rate lies between " + wholePercent(n.Interval[0]) + " and " +
				wholePercent(n.Interval[1]) + " with 95 % confidence"
		}
		add("Sample", sample)
	}
	if !n.WindowTo.IsZero() {
		from := n.WindowFrom.UTC().Format("2006-01-02 15:04")
		add("Window", from+" to "+minute(n.WindowTo)+", "+count(n.WindowSessions, "session"))
	}
	switch n.Status {
	case Firing, Reminder:
		since := n.TriggeredAt
		if n.Since != nil {
			since = *n.Since
		}
		add("Since", minute(since))
	case Resolved:
		if n.Since != nil {
			add("Began", minute(*n.Since))
		}
		add("Resolved", minute(n.TriggeredAt))
	case Test:
	}
	if n.LastSessionAt != nil {
		add("Last session", minute(*n.LastSessionAt))
	} else if n.Type == NoData && n.Status != Test {
		add("Last session", "never")
	}
	if n.Version != nil {
		add("Version", escape.truncate(*n.Version, maxVersion))
	}
	if n.Note != "" {
		add("Note", escape.truncate(n.Note, maxNote))
	}
	return lines
}

// wireTime formats a time for JSON: RFC 3339 with milliseconds.
func wireTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

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
