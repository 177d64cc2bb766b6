package judge

import (
	"strings"
	"unicode"
)

// Stems returns the stems of a text's words, without stop words. Identifiers are
// split: pdf-forms and fillForm are two words each.
func Stems(text string) []string {
	all := Words(text)
	for i, word := range all {
		all[i] = Stem(word)
	}
	return all
}

// Words returns the same words without stemming, in lower case.
func Words(text string) []string {
	var all []string
	notInWord := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }
	// Split camel case: "fillForm" becomes "fill Form".
	var b strings.Builder
	lower := false
	for _, r := range text {
		if lower && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		lower = unicode.IsLower(r)
	}
	for _, word := range strings.FieldsFunc(b.String(), notInWord) {
		if word = strings.ToLower(word); !stopWords[word] {
			all = append(all, word)
		}
	}
	return all
}

// suffixes are tried in this order; the first match is removed. It is read only.
var suffixes = []string{
	"ingly", "ments", "ment", "ities", "ings", "ing", "ions", "ion", "edly", "ies",
	"ers", "ors", "ed", "er", "or", "es", "ly", "s", "e", "y",
}

// minStem is the shortest stem.
const minStem = 3

// Stem maps the forms of an English word to one stem, which need not be a word.
// Words of other languages rarely have these suffixes and stay as they are.
func Stem(word string) string {
	for _, suffix := range suffixes {
		rest, ok := strings.CutSuffix(word, suffix)
		// A suffix is kept where too little would be left: "red" isn't "r".
		if !ok || len(rest) < minStem {
			continue
		}
		// planning and planned: plan, not plann
		if n := len(rest); n > minStem && rest[n-1] == rest[n-2] && strings.IndexByte("bdgmnprt", rest[n-1]) >= 0 {
			rest = rest[:n-1]
		}
		return rest
	}
	return word
}

// stopWords are ignored by the ranking. They include words that are common in
// requests and descriptions. It is read only.
var stopWords = wordSet(`
a about above after again all also am an and any are as asks asked at be because been before being below
between both but by can could did do does doing done during each etc even few for from further get give go got
had has have having he her here hers him his how i if in into is it its itself just let like me might more
most must my myself need needs needed no nor not now of off on once one only or other our ours out over own
per please same shall she should so some such than that the their theirs them then there these they this those
through to too under until up upon us use used user users uses using very via want wants was way we were what
when where whenever whether which while who whom why will with within without would yes yet you your yours
im ive id ill dont cant doesnt didnt isnt wont ll ve re t s d m
skill skills help helps make makes making someone something anything everything thing things work works working
`)

// wordSet returns the words of a list that white space separates.
func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}
