package lint

import (
	"context"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"
)

const (
	// window is how much of a long line is matched at once. Adjacent windows
	// overlap by a quarter, so that no match is split.
	window  = 2048
	overlap = window / 4
	// matchBudget limits the bytes that are matched against patterns in one
	// package: expressions take linear time, but a skill could consist of
	// megabytes of keywords.
	matchBudget = 2 << 20
)

// A scan is the state of the check of one document.
type scan struct {
	*check
	document
	hidden hiddenText
	// reads is the first line that reads credentials, or 0.
	reads int
	// powerful reports that a line needs a shell or the network.
	powerful bool
}

// scanText matches all patterns against the lines of a document.
func (c *check) scanText(ctx context.Context, d document) error {
	s := &scan{check: c, document: d}
	t := tracker{document: d}
	if d.lang == shell {
		s.addPower(d.path, 1)
	}
	for rest, more := d.text, true; more; {
		var text string
		text, rest, more = strings.Cut(rest, "\n")
		l := t.step(strings.TrimSuffix(text, "\r"), rest)
		if !l.isCode() && !l.fenced && !strings.HasPrefix(strings.TrimSpace(l.text), "|") { // rows of a table are apart
			l.next, _, _ = strings.Cut(rest[:min(len(rest), overlap)], "\n")
		}
		if l.number%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !isASCII(l.text) {
			s.checkUnicode(l)
			l.text = stripInvisible(l.text)
		}
		for e := range l.excerpts() {
			next := ""
			if e.last {
				next = l.next
			}
			if found := s.compiled.candidates(l.text[e.start:e.end], next); found != 0 {
				s.matchWindow(e, found)
			}
		}
	}
	if s.hidden.count > manyZeroWidth {
		s.found.add(remark{
			code: "sec.unicode.zero_width", path: s.path, line: s.hidden.line, lower: s.lower,
			message: fmt.Sprintf("%d invisible characters stand inside words.", s.hidden.count),
		})
	}
	s.checkKeys()
	s.checkReadAndSend()
	return nil
}

// An excerpt is the part of a line that is matched at once.
type excerpt struct {
	line
	start, end int
	last       bool // the line ends here
}

// excerpts yields the line in windows; most lines are one.
func (l line) excerpts() iter.Seq[excerpt] {
	return func(yield func(excerpt) bool) {
		for start := 0; ; start += window - overlap {
			end := min(start+window, len(l.text))
			last := end == len(l.text)
			if !yield(excerpt{line: l, start: start, end: end, last: last}) || last {
				return
			}
		}
	}
}

// A match is where a pattern was found.
type match struct {
	excerpt
	from, to int    // in line.text, or beyond its end if next took part
	text     string // what was found
	values   []string
}

// before returns the text of the line before the match, as far as it matters.
func (m match) before() string { return m.line.text[max(0, m.from-200):m.from] }

// after returns the text of the line behind the match, as far as it matters.
func (m match) after() string {
	from := min(m.to, len(m.line.text))
	return m.line.text[from:min(from+window, len(m.line.text))]
}

func (s *scan) matchWindow(e excerpt, found uint64) {
	taken := map[string][][2]int{}
	for ; found != 0; found &= found - 1 {
		p := &s.compiled.patterns[bits.TrailingZeros64(found)]
		if !p.suits(e) || p.code == "" && (p.mark == marksRead && s.reads > 0 || p.mark == marksPower && s.powerful) {
			continue
		}
		for _, m := range s.find(p, e) {
			overlaps := func(t [2]int) bool { return m.from < t[1] && t[0] < m.to }
			if slices.ContainsFunc(taken[p.family], overlaps) || p.accept != nil && !p.accept(m) {
				continue
			}
			if p.family != "" {
				taken[p.family] = append(taken[p.family], [2]int{m.from, m.to})
			}
			s.record(p, m)
		}
	}
}

// find returns the matches of a pattern that begin in the part of the excerpt
// that the next one does not share.
func (s *scan) find(p *pattern, e excerpt) []match {
	text := e.text[e.start:e.end]
	if p.prose && e.last && e.next != "" {
		text += " " + e.next
	}
	if s.budget -= len(text); s.budget < 0 {
		return nil
	}
	limit := window - overlap
	if e.last {
		limit = e.end - e.start
	}
	var all []match
	for _, at := range p.expression.FindAllStringSubmatchIndex(text, -1) {
		if s.budget -= len(text); s.budget < 0 || at[0] >= limit && limit > 0 {
			break // handling a match costs as much as finding it
		}
		m := match{excerpt: e, from: e.start + at[0], to: e.start + at[1], text: text[at[0]:at[1]]}
		for i := 2; i < len(at); i += 2 {
			if at[i] >= 0 {
				m.values = append(m.values, text[at[i]:at[i+1]])
			}
		}
		all = append(all, m)
	}
	return all
}

// record records a match as a finding, as a mark of the file, or both.
func (s *scan) record(p *pattern, m match) {
	r := remark{code: p.code, path: s.path, line: m.number, lower: s.lower, evidence: m.evidence()}
	switch p.family {
	case familySecret:
		r.evidence = m.text
	case familyInjection:
		s.judgeInjection(&r, m)
	default:
		if m.isMention() || m.isData() || s.markdown && s.lower == 0 && !strings.EqualFold(s.path, "SKILL.md") {
			r.lower++
		}
	}
	if p.weigh != nil {
		p.weigh(&r, m)
	}
	switch {
	case p.mark == marksRead && r.lower == s.lower:
		s.reads = firstLine(s.reads, m.number)
	case p.mark == marksPower:
		s.powerful = true
		s.addPower(s.path, m.number)
	}
	if p.code != "" {
		s.found.add(r)
	}
}

func firstLine(known, number int) int {
	if known == 0 {
		return number
	}
	return known
}

// checkReadAndSend reports data exfiltration: a line that sends data, in a file
// that reads credentials.
func (s *scan) checkReadAndSend() {
	if s.reads == 0 {
		return
	}
	sends := func(m match) bool { return !m.isMention() }
	t := tracker{document: s.document}
	for rest, more := s.text, true; more; {
		var text string
		text, rest, more = strings.Cut(rest, "\n")
		l := t.step(text, rest)
		for e := range l.excerpts() {
			if s.compiled.send.suits(e) && slices.ContainsFunc(s.find(&s.compiled.send, e), sends) {
				s.found.add(remark{code: "sec.exfil.read_and_send", path: s.path, line: l.number, lower: s.lower})
				return
			}
		}
	}
}

// evidence is the match with a little context, truncated between words: a part
// of a secret would not be recognised and redacted.
func (m match) evidence() string {
	const around, most = 40, 200
	text := m.line.text
	from, to := max(0, m.from-around), min(len(text), m.to+around)
	for from > 0 && m.from-from < most && !isBreak(text[from-1]) {
		from--
	}
	for to < len(text) && to-m.to < most && !isBreak(text[to]) {
		to++
	}
	if from > 0 && m.from-from >= most {
		from = m.from
	}
	if to < len(text) && to-m.to >= most {
		to = min(len(text), m.to)
	}
	return text[from:to]
}

func isBreak(b byte) bool { return b == ' ' || b == '\t' }
