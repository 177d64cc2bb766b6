package lint

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	blackFlag = 0x1F3F4 // begins the flags of regions, which are written in tags
	tagFirst  = 0xE0000
	tagLast   = 0xE007F

	// manyZeroWidth is the number of invisible characters inside words that
	// copied text may have by accident.
	manyZeroWidth = 50
	// longRun is the length of a run of invisible characters that may be hidden
	// text for a model.
	longRun = 8
	// minHomoglyphWord excludes units and formulas.
	minHomoglyphWord = 3
)

func isTag(r rune) bool  { return tagFirst <= r && r <= tagLast }
func isBidi(r rune) bool { return 0x202A <= r && r <= 0x202E || 0x2066 <= r && r <= 0x2069 }

func isZeroWidth(r rune) bool {
	return 0x200B <= r && r <= 0x200D || r == 0x2060 || r == 0xFEFF
}

func isSelector(r rune) bool { return 0xFE00 <= r && r <= 0xFE0F || 0xE0100 <= r && r <= 0xE01EF }

func isInvisible(r rune) bool { return isTag(r) || isBidi(r) || isZeroWidth(r) || isSelector(r) }

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// stripInvisible removes invisible characters, so that they cannot hide words
// from patterns.
func stripInvisible(s string) string {
	if !strings.ContainsFunc(s, isInvisible) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if isInvisible(r) {
			return -1
		}
		return r
	}, s)
}

// visible escapes invisible characters: "\u{200b}".
func visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || isInvisible(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) && !isInvisible(r) || unicode.IsSpace(r) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, "\\u{%x}", r)
	}
	return b.String()
}

// hiddenText counts invisible characters of one document.
type hiddenText struct {
	count int // inside words
	line  int // of the first
}

// checkUnicode looks at a line that is not plain ASCII.
func (s *scan) checkUnicode(l line) {
	runes := []rune(l.text)
	s.checkTags(l, runes)
	s.checkBidi(l, runes)
	// Count invisible characters between Latin letters. Between others, and between the
	// parts of an emoji, they have a meaning.
	for i := 1; i+1 < len(runes); i++ {
		if isZeroWidth(runes[i]) && unicode.Is(unicode.Latin, runes[i-1]) && unicode.Is(unicode.Latin, runes[i+1]) {
			s.hidden.count++
			s.hidden.line = firstLine(s.hidden.line, l.number)
		}
	}
	s.checkRuns(l, runes, isZeroWidth, decodeBits)
	s.checkRuns(l, runes, isSelector, decodeSelectors)
	s.checkHomoglyphs(l)
}

// checkTags reports tag characters, unless they spell the flag of a region.
func (s *scan) checkTags(l line, runes []rune) {
	for i := 0; i < len(runes); i++ {
		if !isTag(runes[i]) {
			continue
		}
		start := i
		for i < len(runes) && isTag(runes[i]) {
			i++
		}
		run := runes[start:i]
		if start > 0 && runes[start-1] == blackFlag && run[len(run)-1] == tagLast && len(run) <= 7 {
			continue
		}
		// Tag characters encode ASCII: show what they hide.
		var b strings.Builder
		for _, r := range run {
			if plain := r - tagFirst; ' ' <= plain && plain <= '~' {
				b.WriteRune(plain)
			}
		}
		s.found.add(remark{code: "sec.unicode.tag_block", path: s.path, line: l.number, evidence: "hidden text: " +
			b.String()})
	}
}

// checkBidi reports bidirectional overrides ("Trojan Source"). Outside of code
// and SKILL.md it is less severe: right-to-left languages may need them.
func (s *scan) checkBidi(l line, runes []rune) {
	for _, r := range runes {
		if !isBidi(r) {
			continue
		}
		lower := s.lower
		if !l.isCode() && s.path != s.pkg.SkillPath {
			lower = 1
		}
		s.found.add(remark{
			code: "sec.unicode.bidi_override", path: s.path, line: l.number, lower: lower,
			evidence: l.text[:min(len(l.text), window)],
		})
		return
	}
}

// checkRuns reports long runs of one kind of invisible character, with the text
// that they encode, if any.
func (s *scan) checkRuns(l line, runes []rune, kind func(rune) bool, decode func([]rune) string) {
	for i := 0; i < len(runes); i++ {
		start := i
		for i < len(runes) && kind(runes[i]) {
			i++
		}
		if i-start < longRun {
			continue
		}
		r := remark{
			code: "sec.unicode.zero_width", path: s.path, line: l.number, lower: s.lower,
			message: fmt.Sprintf("%d invisible characters stand in a row.", i-start),
		}
		if text := decode(runes[start:i]); text != "" {
			r.severity, r.evidence = Error, "hidden text: "+text
		}
		s.found.add(r)
	}
}

// decodeBits reads a run of two different characters as bits, the first one
// being 0 or 1.
func decodeBits(run []rune) string {
	for zero := range 2 {
		text := make([]byte, 0, len(run)/8)
		var one rune
		var b byte
		for i, r := range run {
			if r != run[0] && one == 0 {
				one = r
			}
			if r != run[0] && r != one {
				return ""
			}
			b <<= 1
			if (r == run[0]) == (zero == 1) {
				b |= 1
			}
			if i%8 == 7 {
				text = append(text, b)
				b = 0
			}
		}
		if isText(text) {
			return string(text)
		}
	}
	return ""
}

// decodeSelectors reads variation selectors as the bytes 0 to 255.
func decodeSelectors(run []rune) string {
	text := make([]byte, 0, len(run))
	for _, r := range run {
		if r <= 0xFE0F {
			text = append(text, byte(r-0xFE00)) // at most 15
			continue
		}
		text = append(text, byte(r-0xE0100+16)) // at most 255
	}
	if isText(text) {
		return string(text)
	}
	return ""
}

// isText reports whether bytes are readable ASCII.
func isText(text []byte) bool {
	for _, b := range text {
		if b != '\n' && (b < ' ' || b > '~') {
			return false
		}
	}
	return len(text) > 1
}

// lookAlikes are Cyrillic and Greek letters that many fonts draw like Latin ones.
const lookAlikes = "аеорсухіјѕԁһԛԝАВЕКМНОРСТХІЈЅҮ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧονα"

var address = regexp.MustCompile(`://|^[\pL\d.-]+\.\pL{2,}(?:[/:]|$)|^www\.`)

// checkHomoglyphs reports words of Latin letters with look-alikes between
// them, one in each run of text without spaces. A word with other letters of
// the second script is real: languages inflect foreign names.
func (s *scan) checkHomoglyphs(l line) {
	for token := range strings.FieldsSeq(stripInvisible(l.text)) {
		word := mixedWord(token)
		if word == "" {
			continue
		}
		r := remark{code: "sec.unicode.homoglyph", path: s.path, line: l.number, lower: s.lower, evidence: word}
		if l.isCode() || s.isAddress(token) {
			r.severity = Error
		}
		s.found.add(r)
	}
}

// isAddress reports whether a token is a URL or a host name. It looks at its
// beginning only, since a token may be as long as its line.
func (s *scan) isAddress(token string) bool {
	token = strings.Trim(token[:min(len(token), overlap)], `<>()[]"'`+"`")
	s.budget -= len(token)
	return s.budget < 0 || address.MatchString(token)
}

// mixedWord returns the first word of a token that mixes scripts, or "".
func mixedWord(token string) string {
	if isASCII(token) {
		return ""
	}
	for word := range strings.FieldsFuncSeq(token, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if isMixed(word) {
			return word
		}
	}
	return ""
}

func isMixed(word string) bool {
	latin, alike, others := 0, 0, 0
	for _, r := range word {
		switch {
		case unicode.Is(unicode.Latin, r):
			latin++
		case strings.ContainsRune(lookAlikes, r):
			alike++
		default:
			others++
		}
	}
	return latin > 0 && alike > 0 && others == 0 && latin+alike >= minHomoglyphWord
}
