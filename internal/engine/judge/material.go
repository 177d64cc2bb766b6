package judge

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// bytesPerToken is low for English (four) and right for Chinese (three, one
// character), so that an estimate of a prompt's tokens errs on the safe side.
const bytesPerToken = 3

// truncateMiddle keeps the head and the tail of a text that is longer than limit
// bytes, with a note between them on how much is omitted.
func truncateMiddle(s string, limit int) (shown string, omitted int) {
	if len(s) <= limit {
		return s, 0
	}
	head, tail := text.Truncate(s, limit/2), text.Tail(s, limit/2)
	omitted = len(s) - len(head) - len(tail)
	return head + fmt.Sprintf("\n[... %d bytes left out here ...]\n", omitted) + tail, omitted
}

// A quotable is a material in which quotations are looked up.
type quotable struct {
	exact  string // normalised
	folded string
}

// newQuotable normalises once: a grading looks up up to fifty quotations.
func newQuotable(material string) quotable {
	return quotable{exact: normalise(material), folded: fold(material)}
}

// contains reports whether the material contains a quotation, word for word: its
// case, its typography and its markdown may differ, and it may leave out what is
// between two passages. A quotation of punctuation only is none.
func (q quotable) contains(quotation string) bool {
	exact := normalise(quotation)
	if !strings.ContainsFunc(exact, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.S) }) {
		return false
	}
	if strings.Contains(q.exact, exact) || strings.Contains(q.exact, trimQuotes(exact)) {
		return true
	}
	folded := foldQuotation(quotation)
	if folded != "" && strings.Contains(q.folded, folded) {
		return true
	}
	return q.containsPassages(quotation)
}

// minPassage is how many letters and digits a part of a quotation must have:
// single words are in every material, and would prove nothing.
const minPassage = 12

// containsPassages reports whether the material contains the parts of a quotation
// like "the first ... the second", in their order.
func (q quotable) containsPassages(quotation string) bool {
	parts := ellipsis.Split(quotation, -1)
	if len(parts) < 2 {
		return false
	}
	// Only what follows the last part is searched for the next: the order must be that of the
	// material.
	rest := q.folded
	for _, part := range parts {
		part = foldQuotation(part)
		at := strings.Index(rest, part)
		if at < 0 || countLetters(part) < minPassage {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}

// ellipsis matches what models write for words that they leave out.
var ellipsis = regexp.MustCompile(`\s*(?:\[\s*(?:\.{3}|…)\s*\]|\.{3,}|…)\s*`)

func countLetters(s string) (n int) {
	for _, r := range s {
		if unicode.In(r, unicode.L, unicode.N) {
			n++
		}
	}
	return n
}

// fold maps texts that differ in case, compatibility characters (NFKC),
// quotation marks, dashes, markdown and white space only to one text.
func fold(s string) string {
	s = strings.ToLower(norm.NFKC.String(EscapeTokens(s)))
	return text.OneLine(strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Pd), r == '\u2212': // dashes, the minus sign
			return '-'
		case unicode.In(r, unicode.Pi, unicode.Pf), strings.ContainsRune("\"'`´„‚*_~#", r):
			return -1
		}
		return r
	}, s))
}

// foldQuotation folds a quotation, without the punctuation that models put at its
// ends.
func foldQuotation(s string) string { return strings.Trim(fold(s), " .,;:!?") }

// normalise returns a text as the model saw it, with white space collapsed.
func normalise(s string) string { return text.OneLine(EscapeTokens(s)) }

// trimQuotes removes the quotation marks that models put around quotations.
func trimQuotes(text string) string {
	for _, pair := range []string{`""`, `''`, "``", "“”"} {
		marks := []rune(pair)
		if inner, ok := strings.CutPrefix(text, string(marks[0])); ok {
			if inner, ok = strings.CutSuffix(inner, string(marks[1])); ok && inner != "" {
				return strings.TrimSpace(inner)
			}
		}
	}
	return text
}
