package notify

import "time"

// message is a notice in words. What others wrote is escaped for the channel
// and bounded, so that title and lines fit into every channel's limits.
type message struct {
	title   string
	summary string // the title as a sentence
	lines   []line
	url     string
}

// line is a fact with its name, or a sentence without one.
type line struct{ label, text string }

// Bounds of what others wrote, in characters.
const (
	maxName    = 80
	maxVersion = 80
	maxNote    = 500
)

func compose(n Notice, escape escaper) message {
	skill := escape.quote(n.Skill, maxName)
	if skill == "" {
		skill = "all skills"
	}
	m := message{url: oneLine(n.URL)}
	if n.Type == NoData {
		m.title, m.summary = noDataWords(n, skill)
	} else {
		m.title, m.summary = passRateWords(n, skill)
	}
	m.lines = factLines(n, escape)
	return m
}

func passRateWords(n Notice, skill string) (title, summary string) {
	rate := "unknown"
	if n.PassRate != nil {
		rate = percent(*n.PassRate)
	}
	threshold := exactPercent(n.Threshold)
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

func noDataWords(n Notice, skill string) (title, summary string) {
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

// factLines are what stands behind the title.
func factLines(n Notice, escape escaper) (lines []line) {
	add := func(label, text string) { lines = append(lines, line{label, text}) }
	if n.Status == Test {
		add("", "Nothing has happened: somebody tried out the channel of an alert.")
	}
	if n.Type == PassRateBelow && n.PassRate != nil {
		add("Sample", sample(n))
	}
	if !n.WindowTo.IsZero() {
		add("Window", n.WindowFrom.UTC().Format("2006-01-02 15:04")+" to "+minute(n.WindowTo)+", "+count(n.WindowSessions, "session"))
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
		add("Version", escape.quote(*n.Version, maxVersion))
	}
	if n.Note != "" {
		add("Note", escape.quote(n.Note, maxNote))
	}
	return lines
}

func sample(n Notice) string {
	text := count(n.SampleSize, "graded session")
	if n.Interval == nil {
		return text
	}
	return text + "; the true pass rate lies between " + wholePercent(n.Interval[0]) + " and " + wholePercent(n.Interval[1]) + " with 95 % confidence"
}

// wireTime is a time as machines read it.
func wireTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
