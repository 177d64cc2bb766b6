package judge

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// BuiltinWriter names the way in which the built-in judge writes descriptions;
// whoever changes it raises it.
const BuiltinWriter = "words-1"

const (
	// maxCommon is the share of the distractors that may have a word which is
	// still worth adding: more of them, and it tells nothing.
	maxCommon = 0.25
	minWord   = 2  // characters of a word worth adding
	maxWord   = 40 // characters; longer ones are no words
)

// clauseStart begins the sentence of the words that were added. It consists of
// words that the ranking does not count.
const clauseStart = "Use when asked about "

// widths are how many words are added at once: the most that was not tried.
// Many words help with many queries, and trigger where they should not. It is
// read only.
var widths = []int{16, 8, 4, 2, 1}

// rewriteByWords is Rewrite without a model. It is deterministic: it adds the
// words that missed queries have in common and others have not, and takes away
// what triggered the skill where it should not.
func (j *Judge) rewriteByWords(r RewriteRequest) (Rewriting, error) {
	base, dropped := r.pruned()
	all, shared := r.tellingWords(base)
	out := Rewriting{Record: j.newRecord(BuiltinWriter, "")}
	for _, added := range choices(all, shared) {
		if len(added)+len(dropped) == 0 {
			break
		}
		out.Description, out.Reason = withWords(base, added), reasonOf(added, dropped)
		if n := utf8.RuneCountInString(out.Description); n > 0 && n <= MaxDescription && !r.knows(out.Description) {
			return out, nil
		}
	}
	return Rewriting{}, &Error{
		Code:    Unusable,
		Message: "the builtin writer finds no further word to add or to drop; a model may (--judge-api)",
		Record:  out.Record,
	}
}

// choices are what could be added, the best first: words that several missed
// queries share, which say more about queries to come, and then all of them,
// each as many as widths allow.
func choices(all []string, shared int) (choices [][]string) {
	for _, words := range [][]string{all[:shared], all} {
		for _, width := range widths {
			choices = append(choices, words[:min(width, len(words))])
		}
	}
	if shared == 0 {
		return choices[len(widths):]
	}
	return choices
}

func reasonOf(added, dropped []string) string {
	var parts []string
	if len(added) > 0 {
		parts = append(parts, "adds words of missed queries: "+strings.Join(added, ", "))
	}
	if len(dropped) > 0 {
		parts = append(parts, "drops what triggered it wrongly: "+strings.Join(dropped, "; "))
	}
	return "builtin " + BuiltinWriter + ": " + strings.Join(parts, "; ")
}

// split divides a description into its text, without the angle brackets that
// the format advises against, and the words that were added.
func split(description string) (text string, added []string) {
	text = inOneLine(strings.NewReplacer("<", "", ">", "").Replace(description))
	at := strings.LastIndex(text, clauseStart)
	if at < 0 || strings.IndexByte(text[at:], '.') != len(text)-at-1 {
		return text, nil
	}
	return strings.TrimSpace(text[:at]), strings.Split(strings.TrimSuffix(text[at+len(clauseStart):], "."), ", ")
}

// withWords adds words to a description.
func withWords(description string, words []string) string {
	text, added := split(description)
	added = append(added, words...)
	if len(added) == 0 {
		return text
	}
	if text != "" && !strings.ContainsAny(text[len(text)-1:], ".!?") {
		text += "."
	}
	return strings.TrimSpace(text + " " + clauseStart + strings.Join(added, ", ") + ".")
}

// pruned is the description without the added words, and without the
// sentences but the first, that triggered the skill where it should not and are
// of no use to queries that want it.
func (r RewriteRequest) pruned() (description string, dropped []string) {
	wanted, blamed := map[string]bool{}, map[string]bool{}
	for _, s := range r.Samples {
		for _, word := range words(s.Query) {
			wanted[word] = wanted[word] || s.Wanted
			blamed[word] = blamed[word] || !s.Wanted && !s.Right
		}
	}
	harmful := func(text string) bool {
		bad := false
		for _, word := range words(text) {
			if wanted[word] {
				return false
			}
			bad = bad || blamed[word]
		}
		if bad {
			dropped = append(dropped, strings.TrimSpace(text))
		}
		return bad
	}
	text, added := split(r.Skill.Description)
	sentences := strings.SplitAfter(text, ". ")
	text = sentences[0] + strings.Join(slices.DeleteFunc(sentences[1:], harmful), "")
	added = slices.DeleteFunc(added, harmful)
	return withWords(strings.TrimSpace(text), added), dropped
}

// tellingWords are the words of missed queries that the skill does not have,
// few others have and no more unwanted than wanted queries have; those that
// would help most first. Several missed queries have each of the first, the
// shared ones.
func (r RewriteRequest) tellingWords(description string) (found []string, shared int) {
	own := map[string]bool{}
	for _, word := range words(r.Skill.Name + " " + description) {
		own[word] = true
	}
	telling := slices.DeleteFunc(r.candidates(), func(c *candidate) bool {
		return c.missed == 0 || c.unwanted >= c.wanted || !isWord(c.word) || float64(c.holders) > maxCommon*float64(len(r.Distractors)) ||
			own[c.stem]
	})
	slices.SortStableFunc(telling, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.missed, a.missed), cmp.Compare(a.unwanted, b.unwanted), cmp.Compare(a.holders, b.holders))
	})
	for _, c := range telling {
		found = append(found, c.word)
		if c.missed > 1 {
			shared++
		}
	}
	return found, shared
}

// A candidate is a word that could be added.
type candidate struct {
	word, stem               string
	missed, wanted, unwanted int // queries that have it
	holders                  int // distractors that have it
}

// candidates are the words of all queries in the order in which they appear.
func (r RewriteRequest) candidates() (all []*candidate) {
	known := map[string]*candidate{}
	for _, s := range r.Samples {
		seen := map[string]bool{}
		for _, word := range unstemmed(s.Query) {
			c := known[stem(word)]
			if c == nil {
				c = &candidate{word: word, stem: stem(word)}
				known[c.stem] = c
				all = append(all, c)
			}
			if !seen[c.stem] {
				c.count(s)
			}
			seen[c.stem] = true
		}
	}
	for _, d := range r.Distractors {
		has := map[string]bool{}
		for _, word := range words(d.Name + " " + d.Description) {
			if c := known[word]; c != nil && !has[word] {
				c.holders++
			}
			has[word] = true
		}
	}
	return all
}

func (c *candidate) count(s Sample) {
	switch {
	case !s.Wanted:
		c.unwanted++
	case s.Right:
		c.wanted++
	default:
		c.wanted++
		c.missed++
	}
}

// isWord reports whether a word says something to people. Numbers do not.
func isWord(word string) bool {
	n := utf8.RuneCountInString(word)
	return n >= minWord && n <= maxWord && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) })
}
