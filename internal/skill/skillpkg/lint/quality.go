package lint

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxLines            = 500
	maxTokens           = 5000
	runesPerToken       = 4
	minDescription      = 20
	maxDescriptionWords = 200
	// minContentWords is the least number of words that are not stop words.
	minContentWords = 2
)

func (c *check) checkBody() {
	body := c.skill.Body
	if strings.TrimSpace(body) == "" {
		c.spec("qual.body.empty", 0, "")
		return
	}
	lines := c.skill.BodyLine - 1 + strings.Count(strings.TrimRight(body, "\n"), "\n") + 1
	if lines > maxLines {
		c.spec("qual.body.too_many_lines", maxLines+1, "SKILL.md has %d lines; %d are recommended at most.",
			lines, maxLines)
	}
	if tokens := utf8.RuneCountInString(body) / runesPerToken; tokens > maxTokens {
		c.spec("qual.body.too_many_tokens", 0, "The body has about %d tokens; %d are recommended at most.",
			tokens, maxTokens)
	}
}

// whenCue matches descriptions that say when to use the skill.
var whenCue = regexp.MustCompile(`(?i)\b(?:when|whenever|if (?:the user|you|asked)|use (?:this|it|for|to|before` +
	`|after|in|on|with|proactively)|used? (?:for|to|by)|useful|for (?:tasks|requests|questions|working)` +
	`|asks? (?:for|to|about)|asked|needs? to|wants? to|trigger)`)

func (c *check) checkDescription() {
	description := c.skill.Description
	if description == "" {
		return // reported by the spec rules
	}
	line := c.field("description").Line
	if n := utf8.RuneCountInString(description); n < minDescription {
		c.spec("qual.description.too_short", line, "The description has %d characters; agents choose by it.", n)
		return
	}
	if n := len(strings.Fields(description)); n > maxDescriptionWords {
		c.spec("qual.description.too_wordy", line, "The description has %d words; %d are plenty.", n, maxDescriptionWords)
	}
	letters, latin := 0, 0
	for _, r := range description {
		if unicode.IsLetter(r) {
			letters++
			if unicode.Is(unicode.Latin, r) {
				latin++
			}
		}
	}
	if latin*2 <= letters {
		return // the other rules are for English only
	}
	// Only distinct words that aren't stop words count.
	words := map[string]bool{}
	notInWord := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, w := range strings.FieldsFunc(strings.ToLower(description), notInWord) {
		words[w] = true
	}
	for _, w := range strings.Fields(emptyWords) {
		delete(words, w)
	}
	if len(words) < minContentWords {
		c.spec("qual.description.too_generic", line, "")
		return
	}
	if !whenCue.MatchString(description) {
		c.spec("qual.description.no_when", line, "")
	}
}

// emptyWords are stop words: they fit any skill.
const emptyWords = ` a about agent ai all also an and any anything are as ask asks assist assistant assists at be best
	better by can
	different do does everything for from general good great help helpful helps how i if improve improves in into is it its
	kind kinds like lot make makes many more most need needed needs of on or other our please problem problems provide provides
	question questions request requests skill so some something stuff such task tasks that the their them these they thing
	things this to tool tools use used useful user users uses using variety various want wants was we what when whenever
	which will with work works you your `
