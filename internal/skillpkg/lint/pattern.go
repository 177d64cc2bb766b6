package lint

import (
	"regexp"
	"slices"
	"sync"
)

// A pattern is something that is looked for in single lines.
type pattern struct {
	// code is the rule that a match breaks, or "" if it only leaves a mark.
	code string
	mark mark
	// family keeps two patterns from reporting the same text.
	family string
	// keywords and also are in lower case: one of each stands in every match,
	// the second maybe in the next line of prose. An empty also wants nothing.
	keywords, also []string
	expression     *regexp.Regexp
	// langs are the languages of the lines to look at; noLang means all lines.
	langs lang
	// inCode says that comments of the code do not count: they are not run.
	inCode bool
	// prose says that a match may go on in the next line of text.
	prose bool
	// when, if set, tells the lines that are worth looking at.
	when func(excerpt) bool
	// accept, if set, refuses matches that are harmless.
	accept func(match) bool
	// weigh, if set, changes the remark about a match.
	weigh func(*remark, match)
}

const (
	familySecret    = "secret"
	familyInjection = "injection"
	familyExec      = "exec"
)

// A mark is something about a file that matters together with other things.
type mark int

const (
	noMark     mark = iota
	marksRead       // reads credentials, or dumps the environment
	marksPower      // needs a shell or the network
)

// maxPatterns is how many patterns a set of keywords can tell apart.
const maxPatterns = 64

// A kit is what scanning needs. It never changes.
type kit struct {
	patterns []pattern
	keywords *matcher
	send     pattern
	// undemanding are the patterns for which one keyword is enough.
	undemanding uint64
}

// theKit is made when it is first needed: compiling the expressions would
// slow down the start of every command.
var theKit = sync.OnceValue(func() *kit {
	k := &kit{patterns: slices.Concat(secretPatterns(), injectionPatterns(), execPatterns(), exfilPatterns(), powerPatterns()), send: sendPattern()}
	keywords := make([][]string, 2*maxPatterns)
	for i, p := range k.patterns {
		keywords[i], keywords[maxPatterns+i] = p.keywords, p.also
		if len(p.also) == 0 {
			k.undemanding |= 1 << i
		}
	}
	k.keywords = newMatcher(keywords)
	return k
})

// candidates returns, as bits, the patterns that are worth trying on a text.
func (k *kit) candidates(text, next string) uint64 {
	found := k.keywords.find(text)
	if found[0] == 0 {
		return 0
	}
	if next != "" {
		found[1] |= k.keywords.find(next)[1]
	}
	return found[0] & (found[1] | k.undemanding)
}

// talk is what people write before something that one should not do.
var talk = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:never|don't|do not|must not|avoid|instead of|rather than|attack\w*|inject(?:ion|ed|s)\w*|malicious|suspicious|detects?|dangerous|unsafe|insecure|bad|wrong|vulnerab\w*|refuse|reject|flags?|antipattern|anti-pattern|such as|e\.g\.|re\.(?:compile|search|match|findall)|regexp?|grep|pattern)\b|❌|🚫`)
})

// isTalk reports whether the text before a match, or the line that introduces
// its block, shows that it is spoken about rather than meant.
func (m match) isTalk() bool {
	return talk().MatchString(m.before()) || m.fenced && talk().MatchString(m.intro)
}

// suits reports whether the pattern is meant for such a line.
func (p *pattern) suits(e excerpt) bool {
	switch {
	case p.langs != noLang && p.langs&e.lang == 0:
		return false
	case p.inCode && e.isRemark():
		return false
	}
	return p.when == nil || p.when(e)
}
