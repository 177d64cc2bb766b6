// Package listing computes what an agent puts of a catalogue of skills into the
// context of its model: every agent has a budget for names and descriptions, and
// truncates or drops what does not fit. The rules are those that the agents document
// or publish as source; docs/catalogue-report.md has them in words. It owns no tables.
package listing

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Agent is one whose rules are known.
type Agent string

// The agents.
const (
	ClaudeCode Agent = "claude-code"
	Codex      Agent = "codex"
)

// Window is the context window that the agent's budget is usually computed from, in
// tokens.
func (a Agent) Window() int64 {
	if a == Codex {
		return 272_000
	}
	return 200_000
}

// A Visibility is what a person allows the agent to list of a skill. The values are
// those of skillOverrides in the settings of Claude Code.
type Visibility string

// The visibilities.
const (
	On                Visibility = "on"
	NameOnly          Visibility = "name-only"
	UserInvocableOnly Visibility = "user-invocable-only"
	Off               Visibility = "off"
)

// hides reports whether the skill is not listed at all.
func (v Visibility) hides() bool { return v == Off || v == UserInvocableOnly }

// A Skill is one that an agent may list.
type Skill struct {
	Name        string
	Description string
	// WhenToUse is the field when_to_use, which Claude Code appends to the description.
	WhenToUse string
	// Uses is how often the skill was used: Claude Code keeps the descriptions of the
	// skills that are used most.
	Uses       int64
	Visibility Visibility // "" is On
}

// A Form is how much of a skill the model sees.
type Form string

// The forms.
const (
	Full      Form = "full"
	Truncated Form = "truncated" // a part of the description
	Bare      Form = "name_only" // no description
	Omitted   Form = "omitted"   // not even the name, for want of space
	Hidden    Form = "hidden"    // as a person or SKILL.md wants it
)

// A Line is what is listed of one skill.
type Line struct {
	Form Form
	// Text is the description as the agent would list it with an unlimited budget: one
	// line, with when_to_use for Claude Code.
	Text string
	// Kept is how many characters of Text the model sees.
	Kept int
	// Shown is the whole line with its line end, "" if there is none.
	Shown string
	// Cost is that of the line in the unit of the budget, and Needed that of the line
	// with the whole text.
	Cost, Needed int64
}

// Seen is the part of the description that the model sees.
func (l Line) Seen() string { return prefix(l.Text, l.Kept) }

// Cut is the part of the description that it does not see.
func (l Line) Cut() string { return l.Text[len(l.Seen()):] }

// A Unit is what a budget counts.
type Unit string

// The units.
const (
	Characters Unit = "characters"
	Tokens     Unit = "tokens"
)

// A Listing is what an agent shows of a catalogue.
type Listing struct {
	Unit   Unit
	Limit  int64
	Needed int64  // to show everything
	Used   int64  // of Limit, with what stands around the lines
	Lines  []Line // in the order of the skills that were given
}

// bytesPerToken is how all agents and this service estimate tokens.
const bytesPerToken = 4

// TokensOf estimates the tokens of a text.
func TokensOf(s string) int64 { return TokensOfBytes(len(s)) }

// TokensOfBytes estimates the tokens of a text of so many bytes.
func TokensOfBytes(bytes int) int64 { return int64(bytes+bytesPerToken-1) / bytesPerToken }

// Of returns the listing of an agent whose model has a context window of so many
// tokens.
func Of(agent Agent, skills []Skill, window int64) Listing {
	if agent == Codex {
		return codex(skills, window)
	}
	return claudeCode(skills, window)
}

// oneLine is a text as agents list it: without line ends.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// prefix returns the first n characters.
func prefix(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// byName returns the places of skills in the order of their names.
func byName(skills []Skill) []int {
	order := make([]int, len(skills))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(skills[a].Name, skills[b].Name) })
	return order
}

func runes(s string) int { return utf8.RuneCountInString(s) }
