package main

import (
	"fmt"
	"slices"
	"strings"
)

// A node is an element, an action with the lists of its branches, or a leaf.
type node struct {
	token
	up    *list    // that has it
	name  string   // of an element's tag, or the first word of an action
	parts []*list  // the content of an element, or the branches of an action
	heads []string // of the branches after the first, e.g. {{else}}
	end   string   // the closing tag, or {{end}}
}

// A list is what stands in an element or a branch. There is a gap before each node
// and one after the last.
type list struct {
	nodes []*node
	gaps  []gap
	in    *node // nil is the file
	at    int   // the index of in there
	fixed bool  // style sheets show its white space
}

// A gap is what stands between two nodes.
type gap struct {
	space bool // white space
	blank bool // an empty line
}

// empty are the elements without content.
var empty = []string{"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr", "!doctype"}

// inline are the elements beside which white space shows.
var inline = []string{
	"a", "abbr", "b", "button", "cite", "code", "datalist", "del", "em", "i", "img", "input", "ins", "kbd", "mark", "meter",
	"output", "progress", "q", "s", "samp", "select", "small", "span", "strong", "sub", "sup", "svg", "textarea", "time",
	"tspan", "u", "var",
}

// boxes are inline elements whose own content begins and ends as that of a block does.
var boxes = []string{"button", "datalist", "select", "svg"}

// flexible are classes that the style sheets lay out as flexible boxes or grids, in
// which white space beside an element is ignored.
var flexible = []string{
	"brand", "check", "copy", "figures", "filters", "pager", "ranges", "role", "row", "stack", "step", "tile", "title", "undo", "unit",
	"who",
}

func (n *node) isElement() bool { return n.kind == open || n.kind == raw }

// isBlock tells whether white space beside an element is ignored.
func (n *node) isBlock() bool {
	switch {
	case !n.isElement():
		return false
	case n.name == "label":
		return !n.hasClass("check") && !n.up.inClass("drop")
	case n.name == "form" && n.up.inClass("actions"):
		return false
	}
	return !slices.Contains(inline, n.name) || n.up.isFlexible()
}

// isFlexible tells whether a list stands in an element that is laid out as a flexible box.
func (l *list) isFlexible() bool {
	for ; l.in != nil; l = l.in.up {
		if l.in.kind == open {
			return slices.ContainsFunc(flexible, l.in.hasClass)
		}
	}
	return false
}

func (n *node) isBox() bool {
	return n.isBlock() || n.hasClass("check") || slices.Contains(boxes, n.name)
}

func (n *node) isControl() bool { return n.kind == action && len(n.parts) > 0 }

// isBranching tells of an action whether its branches show where they stand.
func (n *node) isBranching() bool { return n.isControl() && n.name != "define" && n.name != "block" }

// isTotal tells whether one of the branches is always taken.
func (n *node) isTotal() bool {
	return slices.ContainsFunc(n.heads, func(head string) bool { return head == "{{else}}" })
}

// isSilent tells whether a node shows nothing.
func (n *node) isSilent() bool {
	isComment := strings.HasPrefix(n.text, "{{/*")
	isAssignment := strings.HasPrefix(n.text, "{{$") && strings.Contains(n.text, "=")
	return n.kind == action && (isComment || isAssignment) || n.name == "input" && strings.Contains(n.text, `type="hidden"`)
}

// isFixed tells of an element whether the style sheets of the dashboard show the white
// space in it, e.g. by white-space: pre-line.
func (n *node) isFixed() bool {
	if n.kind != open {
		return false
	}
	switch n.name {
	case "code", "text":
		return true
	case "span":
		return n.up.inClass("step") // which hides its empty ones
	case "td", "th":
		return n.hasClass("text") || n.up.inClass("cases")
	case "dd":
		return n.up.inClass("asked")
	}
	return n.hasClass("query") || n.hasClass("said")
}

func (n *node) hasClass(class string) bool {
	_, after, ok := strings.Cut(n.text, ` class="`)
	value, _, _ := strings.Cut(after, `"`)
	return ok && slices.Contains(strings.Fields(value), class)
}

func (l *list) inClass(class string) bool {
	for ; l.in != nil; l = l.in.up {
		if l.in.kind == open && l.in.hasClass(class) {
			return true
		}
	}
	return false
}

// argument returns the name of the template that an action defines or uses.
func (n *node) argument() string { return actionWords(strings.Trim(n.text, "{}"))[1] }

func verbOf(action string) string {
	words := actionWords(strings.Trim(action, "{}"))
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// parse makes a tree of tokens. Each branch of an action has whole elements. The set has
// the templates of which white space shows; it gets those that they use.
func parse(tokens []token, fixed map[string]bool) (*list, error) {
	l := &list{gaps: make([]gap, 1)}
	root := l
	add := func(t token) *node {
		n := &node{token: t, up: l}
		l.nodes, l.gaps = append(l.nodes, n), append(l.gaps, gap{})
		return n
	}
	enter := func(n *node) {
		shows := n.up.fixed || n.isFixed() || n.name == "define" && fixed[n.argument()]
		l = &list{gaps: make([]gap, 1), in: n, at: len(n.up.nodes) - 1, fixed: shows}
		n.parts = append(n.parts, l)
	}
	for _, t := range tokens {
		switch t.kind {
		case space:
			g := &l.gaps[len(l.nodes)]
			g.space, g.blank = true, g.blank || strings.Count(t.text, "\n") > 1
		case word:
			add(t)
		case raw:
			add(t).name = tagName(t.text)
		case open:
			t.text = flatTag(t.text)
			n := add(t)
			n.name = tagName(t.text)
			if !slices.Contains(empty, n.name) && !strings.HasSuffix(t.text, "/>") {
				enter(n)
			}
		case shut:
			if l.in == nil || l.in.kind != open || l.in.name != tagName(t.text) {
				return nil, fmt.Errorf("%d: %s has no beginning in its branch", t.line, t.text)
			}
			l.in.end, l = t.text, l.in.up
		case action:
			switch verb := verbOf(t.text); verb {
			case "if", "with", "range", "define", "block":
				n := add(t)
				n.name = verb
				enter(n)
			case "else", "end":
				if l.in == nil || l.in.kind != action {
					return nil, fmt.Errorf("%d: %s in an element that does not end", t.line, t.text)
				}
				n := l.in
				if l = l.in.up; verb == "else" {
					n.heads = append(n.heads, t.text)
					enter(n)
				} else {
					n.end = t.text
				}
			default:
				n := add(t)
				n.name = verb
				if verb == "template" && l.fixed {
					fixed[n.argument()] = true
				}
			}
		}
	}
	if l.in != nil {
		return nil, fmt.Errorf("%d: %s does not end", l.in.line, l.in.text)
	}
	return root, nil
}

// A gapKind says what white space does in a gap.
type gapKind int

const (
	tight gapKind = iota // there is none, and it would show
	shown                // it shows as one blank
	free                 // it is ignored
)

func (l *list) gapKind(i int) gapKind {
	space := l.gaps[i].space
	switch {
	case !l.fixed && (l.edgeBefore(i, nil) || l.edgeAfter(i, !space, nil)):
		return free
	case space:
		return shown
	}
	return tight
}

// edgeBefore tells whether white space at a gap is ignored because of what stands
// before it, whichever branches are taken: the edge of a block, or white space that
// stands before the branch. Loops are what is being looked at already.
func (l *list) edgeBefore(i int, loops []*node) bool {
	for j := i - 1; j >= 0; j-- {
		n := l.nodes[j]
		switch {
		case n.isSilent():
		case n.isBlock():
			return true
		case !n.isBranching() || slices.ContainsFunc(n.parts, func(p *list) bool { return !p.edgeBefore(len(p.nodes), loops) }):
			return false
		case n.isTotal():
			return true
		}
	}
	return l.edgeOutside(loops,
		func(loops []*node) bool {
			return l.in.kind == action && l.in.up.gaps[l.at].space || l.in.up.edgeBefore(l.at, loops)
		},
		func(loops []*node) bool { return l.edgeBefore(len(l.nodes), loops) })
}

// edgeAfter is the same for what stands after the gap. White space behind the branch
// counts if the gap has none itself, for one of the two must stay.
func (l *list) edgeAfter(i int, space bool, loops []*node) bool {
	for _, n := range l.nodes[i:] {
		switch {
		case n.isSilent():
		case n.isBlock():
			return true
		case !n.isBranching() || slices.ContainsFunc(n.parts, func(p *list) bool { return !p.edgeAfter(0, space, loops) }):
			return false
		case n.isTotal():
			return true
		}
	}
	return l.edgeOutside(loops,
		func(loops []*node) bool {
			space := space && l.in.kind == action
			return space && l.in.up.gaps[l.at+1].space || l.in.up.edgeAfter(l.at+1, space, loops)
		},
		func(loops []*node) bool { return l.edgeAfter(0, space, loops) })
}

// edgeOutside goes on where a list begins or ends.
func (l *list) edgeOutside(loops []*node, outside, again func([]*node) bool) bool {
	n := l.in
	switch {
	case n == nil:
		return true
	case n.kind == open && n.isBox():
		return true
	case n.kind != open && !n.isBranching():
		return false
	case n.name != "range" || l != n.parts[0]:
		return outside(loops)
	case slices.Contains(loops, n):
		return true
	}
	loops = append(slices.Clip(loops), n)
	return outside(loops) && again(loops)
}
