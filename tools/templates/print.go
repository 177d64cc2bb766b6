package main

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	columns = 130
	tab     = 4
)

// flat writes a list on one line. It reports false if it has something that needs
// lines of its own.
func (l *list) flat() (string, bool) {
	var b strings.Builder
	for i := 0; ; i++ {
		if l.gapKind(i) == shown {
			b.WriteByte(' ')
		}
		if i == len(l.nodes) {
			return b.String(), !l.isTall()
		}
		s, ok := l.nodes[i].flat()
		if !ok {
			return "", false
		}
		b.WriteString(s)
	}
}

func (n *node) flat() (string, bool) {
	if n.kind == raw {
		end := tagEnd(n.text)
		return flatTag(n.text[:end]) + n.text[end:], !strings.Contains(n.text[end:], "\n")
	}
	var b strings.Builder
	b.WriteString(n.text)
	for i, p := range n.parts {
		if i > 0 {
			b.WriteString(n.heads[i-1])
		}
		s, ok := p.flat()
		if !ok {
			return "", false
		}
		b.WriteString(s)
	}
	b.WriteString(n.end)
	return b.String(), true
}

// hasBlock tells whether a list has a block, in a branch or not.
func (l *list) hasBlock() bool {
	return slices.ContainsFunc(l.nodes, func(n *node) bool {
		return n.isBlock() || n.isControl() && slices.ContainsFunc(n.parts, (*list).hasBlock)
	})
}

// isTall tells whether a list needs several lines. One block in a branch without
// another needs none: {{with .Text}}<p>{{.}}</p>{{end}}.
func (l *list) isTall() bool {
	if l.in == nil {
		return true
	}
	if l.hasBlock() && (l.in.kind == open || len(l.nodes) > 1 || len(l.in.parts) > 1) {
		return true
	}
	for i := 1; i < len(l.nodes); i++ {
		if l.gapKind(i) != tight && l.isBreak(i) {
			return true
		}
	}
	return false
}

// hasText tells whether a list is text with elements in it, which flows.
func (l *list) hasText() bool {
	return slices.ContainsFunc(l.nodes, func(n *node) bool { return n.kind == word })
}

// isBreak tells whether a line ends at a gap, if it can.
func (l *list) isBreak(i int) bool {
	if i == 0 || i == len(l.nodes) {
		return true
	}
	a, b := l.nodes[i-1], l.nodes[i]
	return a.isBlock() || b.isBlock() && b.name != "br" || a.isTallControl() || b.isTallControl() ||
		!l.hasText() && a.isThing() && b.isThing()
}

// isThing tells of what has a line of its own, outside of text.
func (n *node) isThing() bool {
	return n.isElement() || n.isControl() || n.isSilent() || n.name == "template"
}

func (n *node) isTallControl() bool {
	if !n.isControl() {
		return false
	}
	_, ok := n.flat()
	return !ok
}

// A printer writes a template.
type printer struct {
	text []byte
	col  int
	trim bool // the next action begins with a trim marker
}

func (l *list) String() string {
	var p printer
	for i, n := range l.nodes {
		if i > 0 {
			p.write("\n")
			if n.isControl() || l.gaps[i].blank {
				p.write("\n")
			}
		}
		p.node(n, 0, 0)
	}
	p.write("\n")
	return string(p.text)
}

func width(s string) int { return utf8.RuneCountInString(s) + (tab-1)*strings.Count(s, "\t") }

func (p *printer) write(s string) {
	if p.trim {
		s, p.trim = "{{- "+s[len("{{"):], false
	}
	p.text = append(p.text, s...)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		p.col, s = 0, s[i+1:]
	}
	p.col += width(s)
}

func (p *printer) newline(depth int) { p.write("\n" + strings.Repeat("\t", depth)) }

func (p *printer) fits(width int) bool {
	if p.trim {
		width += len("- ")
	}
	return p.col+width <= columns
}

// list writes a list on several lines. The tail is the width of what must follow on
// the last of them.
func (p *printer) list(l *list, depth, tail int) {
	for i := range l.gaps {
		p.gap(l, i, depth, tail)
		if i < len(l.nodes) {
			p.node(l.nodes[i], depth, l.tailAt(i+1, tail))
		}
	}
}

// gap ends the line, or not.
func (p *printer) gap(l *list, i, depth, tail int) {
	atEnd := i == len(l.nodes)
	if atEnd {
		depth--
	}
	kind := l.gapKind(i)
	switch {
	case kind == tight && !l.canTrim(i), kind == shown && l.fixed, kind != free && !l.isBreak(i) && p.fits(l.chunk(i, tail)):
		if kind == shown {
			p.write(" ")
		}
	case kind == tight && (atEnd && l.in.kind == action || !atEnd && l.nodes[i].kind == action):
		p.newline(depth)
		p.trim = true
	case kind == tight:
		p.text = append(bytes.TrimSuffix(p.text, []byte("}}")), " -}}"...)
		p.newline(depth)
	case kind == free && !l.isBreak(i) && p.fits(l.chunk(i, tail)):
	default:
		if l.gaps[i].blank && i > 0 && !atEnd {
			p.write("\n")
		}
		p.newline(depth)
	}
}

// canTrim tells whether an action beside a gap can remove the white space in it.
func (l *list) canTrim(i int) bool {
	if i == 0 || i == len(l.nodes) {
		return l.in.kind == action || len(l.nodes) > 0 && l.nodes[max(i-1, 0)].kind == action
	}
	return l.nodes[i-1].kind == action || l.nodes[i].kind == action
}

// canBreak tells whether a line can end at a gap.
func (l *list) canBreak(i int) bool {
	kind := l.gapKind(i)
	return kind == free || kind == shown && !l.fixed || l.canTrim(i)
}

// chunk returns the width of what stands between a gap and the next white space; too
// much if that needs several lines.
func (l *list) chunk(i, tail int) int {
	sum := 0
	if l.gapKind(i) == shown {
		sum = 1
	}
	for ; i < len(l.nodes); i++ {
		s, ok := l.nodes[i].flat()
		if !ok {
			return columns
		}
		sum += width(s)
		if l.gapKind(i+1) != tight {
			return sum
		}
	}
	if l.canBreak(len(l.nodes)) {
		return sum
	}
	return sum + tail
}

// tailAt returns the width of what must follow before a line can end, from a gap on.
func (l *list) tailAt(i, tail int) int {
	if l.canBreak(i) {
		return len(" -")
	}
	sum := 0
	for ; i < len(l.nodes); i++ {
		s, ok := l.nodes[i].flat()
		if !ok {
			return sum + width(l.nodes[i].text)
		}
		sum += width(s)
		if l.canBreak(i + 1) {
			return sum
		}
	}
	return sum + tail
}

func (p *printer) node(n *node, depth, tail int) {
	if s, ok := n.flat(); ok && p.fits(width(s)+tail) {
		p.write(s)
		return
	}
	switch {
	case n.kind == open:
		p.element(n, depth, tail)
	case n.isControl():
		p.action(n.text, depth)
		for i, branch := range n.parts {
			if i > 0 {
				p.action(n.heads[i-1], depth)
			}
			if len(branch.nodes) > 0 {
				p.list(branch, depth+1, 0)
			}
		}
		p.write(n.end)
	case n.kind == action:
		p.action(n.text, depth)
	case n.kind == raw:
		end := tagEnd(n.text)
		first, _, _ := strings.Cut(n.text[end:], "\n")
		p.tag(flatTag(n.text[:end]), depth+1, width(first))
		p.write(n.text[end:])
	default:
		p.write(n.text)
	}
}

func (p *printer) element(n *node, depth, tail int) {
	if len(n.parts) == 0 {
		p.tag(n.text, depth+1, tail)
		return
	}
	body := n.parts[0]
	tail += width(n.end)
	p.tag(n.text, depth+2, body.tailAt(0, tail))
	if s, ok := body.flat(); ok && p.fits(width(s)+tail) {
		p.write(s)
	} else {
		p.list(body, depth+1, tail)
	}
	p.write(n.end)
}

func (p *printer) tag(text string, depth, tail int) {
	if p.fits(width(text) + tail) {
		p.write(text)
		return
	}
	parts := tagParts(text, false)
	for i, part := range parts {
		end := 0
		if i == len(parts)-1 {
			end = tail
		}
		switch {
		case i == 0:
		case !p.fits(1 + width(part.text) + end):
			p.newline(depth)
		case !part.glued:
			p.write(" ")
		}
		if p.fits(width(part.text) + end) {
			p.write(part.text)
			continue
		}
		for j, inner := range tagParts(part.text, true) {
			switch {
			case j == 0:
			case p.fits(1 + width(inner.text) + end):
				p.write(" ")
			default:
				p.newline(depth + 1)
			}
			p.write(inner.text)
		}
	}
}

// action writes an action, on several lines if it must.
func (p *printer) action(text string, depth int) {
	if p.fits(width(text)) || strings.HasPrefix(text, "{{/*") {
		p.write(text)
		return
	}
	for i, word := range actionWords(text) {
		switch {
		case i == 0:
		case p.fits(1 + width(word)):
			p.write(" ")
		default:
			p.newline(depth + 1)
		}
		p.write(word)
	}
}
