package judge

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// BuiltinWriter is the version of the built-in judge's way to write
// descriptions. A change needs a new version.
const BuiltinWriter = "words-1"

const (
	// maxCommon is the largest share of distractors with a word that is still
	// worth adding: a more common word does not distinguish the skill.
	maxCommon = 0.25
	minWord   = 2  // characters of a word worth adding
	maxWord   = 40 // characters; anything longer is not a word
)

// clauseStart begins the sentence of the added words. It consists of stop words,
// which the ranking ignores.
const clauseStart = "Use when asked about "

// widths are the numbers of words that are added at once, in the order in which
// they are tried. Many words help with many queries, but also trigger the skill
// where they should not. It is read only.
var widths = []int{16, 8, 4, 2, 1}

// rewriteByWords is Rewrite without a model. It is deterministic: it adds words
// that missed queries have and other queries and skills do not, and drops
// sentences and words that triggered the skill where they should not.
func (j *Judge) rewriteByWords(r RewriteRequest) (Rewriting, error) {
	base, dropped := r.prune()
	all, shared := r.distinctiveWords(base)
	out := Rewriting{Record: j.newRecord(BuiltinWriter, "")}
	for _, added := range wordChoices(all, shared) {
		if len(added)+len(dropped) == 0 {
			break
		}
		var parts []string
		if len(added) > 0 {
			parts = append(parts, "adds words of missed queries: "+strings.Join(added, ", "))
		}
		if len(dropped) > 0 {
			parts = append(parts, "drops what triggered it wrongly: "+strings.Join(dropped, "; "))
		}
		out.Description, out.Reason = addWords(base, added), "builtin "+BuiltinWriter+": "+strings.Join(parts, "; ")
		n := utf8.RuneCountInString(out.Description)
		if n > 0 && n <= MaxDescription && !r.wasTried(out.Description) {
			return out, nil
		}
	}
	return Rewriting{}, &Error{
		Code:    Unusable,
		Message: "the builtin writer finds no further word to add or to drop; a model may (--judge-api)",
		Record:  out.Record,
	}
}

// wordChoices returns sets of words to add, the best first: those that several
// missed queries share, which predict future queries better, and then all of
// them, each in the sizes of widths.
func wordChoices(all []string, shared int) (choices [][]string) {
	for _, some := range [][]string{all[:shared], all} {
		for _, width := range widths {
			choices = append(choices, some[:min(width, len(some))])
		}
	}
	// Without shared words the first half of the choices would all be empty.
	if shared == 0 {
		return choices[len(widths):]
	}
	return choices
}

// splitAddedWords splits a description into its text, without the angle brackets
// that the format advises against, and the words that were added to it.
func splitAddedWords(description string) (base string, added []string) {
	base = text.OneLine(text.Clean(strings.NewReplacer("<", "", ">", "").Replace(description)))
	at := strings.LastIndex(base, clauseStart)
	// The words are only ours if the clause ends the description: a person may have written the
	// same beginning.
	if at < 0 || strings.IndexByte(base[at:], '.') != len(base)-at-1 {
		return base, nil
	}
	return strings.TrimSpace(base[:at]), strings.Split(strings.TrimSuffix(base[at+len(clauseStart):], "."), ", ")
}

// addWords adds words to a description.
func addWords(description string, more []string) string {
	base, added := splitAddedWords(description)
	added = append(added, more...)
	if len(added) == 0 {
		return base
	}
	if base != "" && !strings.ContainsAny(base[len(base)-1:], ".!?") {
		base += "."
	}
	return strings.TrimSpace(base + " " + clauseStart + strings.Join(added, ", ") + ".")
}

// prune returns the description without the added words and sentences that
// triggered the skill where they should not and help no query that should
// trigger it. The first sentence always stays.
func (r RewriteRequest) prune() (description string, dropped []string) {
	wanted, blamed := map[string]bool{}, map[string]bool{}
	for _, s := range r.Samples {
		for _, word := range Stems(s.Query) {
			wanted[word] = wanted[word] || s.Wanted
			blamed[word] = blamed[word] || !s.Wanted && !s.Right
		}
	}
	harmful := func(text string) bool {
		bad := false
		for _, word := range Stems(text) {
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
	base, added := splitAddedWords(r.Skill.Description)
	sentences := strings.SplitAfter(base, ". ")
	base = sentences[0] + strings.Join(slices.DeleteFunc(sentences[1:], harmful), "")
	added = slices.DeleteFunc(added, harmful)
	return addWords(strings.TrimSpace(base), added), dropped
}

// distinctiveWords returns words of missed queries that the skill does not have
// yet, that few distractors have, and that more wanted than unwanted queries
// have, the most helpful first. The first shared of them occur in several missed
// queries.
func (r RewriteRequest) distinctiveWords(description string) (found []string, shared int) {
	present := map[string]bool{}
	for _, word := range Stems(r.Skill.Name + " " + description) {
		present[word] = true
	}
	distinctive := slices.DeleteFunc(r.candidates(), func(c *candidate) bool {
		common := float64(c.docFreq) > maxCommon*float64(len(r.Distractors))
		return c.missed == 0 || c.unwanted >= c.wanted || !isWord(c.word) || common || present[c.stem]
	})
	slices.SortStableFunc(distinctive, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.missed, a.missed), cmp.Compare(a.unwanted, b.unwanted), cmp.Compare(a.docFreq, b.docFreq))
	})
	for _, c := range distinctive {
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
	missed, wanted, unwanted int // number of queries with it
	docFreq                  int // number of distractors with it
}

// candidates returns the words of all queries in the order of their appearance.
func (r RewriteRequest) candidates() (all []*candidate) {
	known := map[string]*candidate{}
	for _, s := range r.Samples {
		seen := map[string]bool{}
		for _, word := range Words(s.Query) {
			c := known[Stem(word)]
			if c == nil {
				c = &candidate{word: word, stem: Stem(word)}
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
		for _, word := range Stems(d.Name + " " + d.Description) {
			if c := known[word]; c != nil && !has[word] {
				c.docFreq++
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

// isWord reports whether a word consists of letters and has a plausible length.
func isWord(word string) bool {
	n := utf8.RuneCountInString(word)
	return n >= minWord && n <= maxWord && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) })
}
