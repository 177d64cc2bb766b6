package lint

import (
	"regexp"
	"slices"
	"sync"
)

// A pattern is searched in single lines.
type pattern struct {
	// code is the rule that a match breaks, or "" if it only sets a mark.
	code string
	mark mark
	// Of overlapping matches in a family only the first is reported.
	family string
	// keywords and also are in lower case: every match contains one of each,
	// the second possibly in the next line of prose. An empty also requires
	// nothing. Lines without them are skipped, which saves the regexp.
	keywords, also []string
	expression     *regexp.Regexp
	// langs are the languages of the lines to search; noLang means all lines.
	langs lang
	// inCode skips comments of code: they are not run.
	inCode bool
	// prose lets a match continue in the next line of text.
	prose bool
	// when, if set, selects the lines to search.
	when func(excerpt) bool
	// accept, if set, drops harmless matches.
	accept func(match) bool
	// weigh, if set, changes the remark about a match.
	weigh func(*remark, match)
}

const (
	familySecret    = "secret"
	familyInjection = "injection"
	familyExec      = "exec"
)

// A mark is a property of a file that matters in combination with others.
type mark int

const (
	noMark     mark = iota
	marksRead       // reads credentials, or dumps the environment
	marksPower      // needs a shell or the network
)

// maxPatterns is the number of bits for patterns in a set of keywords.
const maxPatterns = 64

// A patternSet is all compiled patterns. It is read only.
type patternSet struct {
	patterns []pattern
	keywords *matcher
	send     pattern // searched only in files that read credentials
	// oneKeyword are the patterns, as bits, for which one keyword is enough.
	oneKeyword uint64
}

// compiledPatterns is compiled on first use: it would slow down the start of
// every command.
var compiledPatterns = sync.OnceValue(func() *patternSet {
	k := &patternSet{send: marking(noMark, sendText)}
	k.patterns = slices.Concat(secretPatterns(), injectionPatterns(), execPatterns(), exfilPatterns(), powerPatterns())
	lists := make([][]string, 2*maxPatterns)
	for i, p := range k.patterns {
		lists[i], lists[maxPatterns+i] = p.keywords, p.also
		if len(p.also) == 0 {
			k.oneKeyword |= 1 << i
		}
	}
	k.keywords = newMatcher(lists)
	return k
})

// candidates returns, as bits, the patterns whose keywords occur in a text.
func (k *patternSet) candidates(text, next string) uint64 {
	found := k.keywords.Find(text)
	if found[0] == 0 {
		return 0
	}
	if next != "" {
		found[1] |= k.keywords.Find(next)[1]
	}
	return found[0] & (found[1] | k.oneKeyword)
}

// mention matches what people write before something that should not be done.
var mention = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:never|don't|do not|must not|avoid|instead of|rather than|attack\w*` +
		`|inject(?:ion|ed|s)\w*|malicious|suspicious|detects?|dangerous|unsafe|insecure|bad|wrong|vulnerab\w*` +
		`|refuse|reject|flags?|antipattern|anti-pattern|such as|e\.g\.|re\.(?:compile|search|match|findall)` +
		`|regexp?|grep|pattern|destructive|harmful|blocks?|blocked|forbid(?:s|den)?|thefts?|harvest(?:s|ing)?` +
		`|disguises?|exploits?|alerts?|detections?|deny|denied|denies|disallow(?:s|ed)?|prohibit(?:s|ed)?)\b|"examples?"\s*:|恶意|可疑|危险|❌|🚫`)
})

// verdict matches what people write after something that should not be done.
var verdict = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?i)^[\"'`)]*,?\\s*\\b(?:is|are|would be) (?:an? )?" +
		`(?:attacks?|malicious|suspicious|dangerous|unsafe|insecure|misaligned|red flags?)\b`)
})

// isMention reports whether the text around a match, the comment above it, or the
// line that introduces its block shows that the match is only mentioned.
func (m match) isMention() bool {
	return mention().MatchString(m.before()) || verdict().MatchString(m.after()) ||
		m.fenced && (mention().MatchString(m.intro) || mention().MatchString(m.note))
}

// suits reports whether the pattern applies to a line.
func (p *pattern) suits(e excerpt) bool {
	switch {
	case p.langs != noLang && p.langs&e.lang == 0:
		return false
	case p.inCode && e.isComment():
		return false
	}
	return p.when == nil || p.when(e)
}
