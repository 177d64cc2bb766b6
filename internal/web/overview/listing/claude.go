package listing

import (
	"cmp"
	"slices"
	"unicode/utf16"
)

// Claude Code: one percent of the context window, at four characters a token; a
// description of at most so many characters, with its ellipsis. Settings change both
// (skillListingBudgetFraction, skillListingMaxDescChars).
const (
	claudePercent        = 1
	claudeMaxDescription = 1_536
	ellipsis             = "…"
)

// claudeCode lists every name. If the descriptions do not fit, those of the skills
// that are used least are dropped, each as a whole.
func claudeCode(skills []Skill, window int64) Listing {
	l := Listing{
		Unit: Characters, Limit: max(1, window*bytesPerToken*claudePercent/100), Lines: make([]Line, len(skills)),
	}
	names := int64(0) // what all names take
	for i, k := range skills {
		line := &l.Lines[i]
		line.Text = oneLine(k.Description)
		if when := oneLine(k.WhenToUse); when != "" {
			line.Text += " - " + when
		}
		if k.Visibility.hides() {
			line.Form = Hidden
			continue
		}
		line.Shown, line.Form = "- "+k.Name+"\n", Bare
		line.Cost = units(line.Shown)
		line.Needed = line.Cost
		names += line.Cost
		if k.Visibility != NameOnly && line.Text != "" {
			line.Needed = units(claudeLine(k.Name, cappedAt(line.Text, claudeMaxDescription)))
		}
		l.Needed += line.Needed
	}
	l.Needed, names = withoutLast(l.Needed), withoutLast(names)
	left := l.Limit - names
	if l.Needed <= l.Limit {
		left = l.Needed - names
	}
	l.Used = names
	for _, i := range byUse(skills) {
		line := &l.Lines[i]
		extra := line.Needed - line.Cost
		if line.Form != Bare || extra == 0 {
			continue
		}
		if extra > left { // the rest is used less
			break
		}
		left, l.Used = left-extra, l.Used+extra
		shown := cappedAt(line.Text, claudeMaxDescription)
		line.Shown, line.Cost, line.Form = claudeLine(skills[i].Name, shown), line.Needed, Full
		line.Kept = runes(line.Text)
		if shown != line.Text {
			line.Form, line.Kept = Truncated, runes(shown)-runes(ellipsis)
		}
	}
	return l
}

// claudeLine is one line of the list as Claude Code writes it.
func claudeLine(name, text string) string { return "- " + name + ": " + text + "\n" }

// withoutLast takes off the end of the last line: lines are joined by it.
func withoutLast(cost int64) int64 { return max(0, cost-1) }

// byUse returns the places of skills, the one that is used most first. Skills with
// equal use are in the order of their names, so that a report is stable.
func byUse(skills []Skill) []int {
	order := byName(skills)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(skills[b].Uses, skills[a].Uses) })
	return order
}

// cappedAt shortens a text to so many characters, the ellipsis included.
func cappedAt(s string, limit int) string {
	if int(units(s)) <= limit {
		return s
	}
	// Whole runes only: half a surrogate pair is no character.
	used := 0
	for i, r := range s {
		if used += utf16.RuneLen(r); used > limit-1 {
			return s[:i] + ellipsis
		}
	}
	return s
}

// units counts characters as JavaScript does.
func units(s string) (n int64) {
	for _, r := range s {
		n += int64(max(1, utf16.RuneLen(r)))
	}
	return n
}
