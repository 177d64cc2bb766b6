package compare

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Kind says what became of a span of text.
type Kind string

// The kinds.
const (
	Same    Kind = "same"
	Removed Kind = "removed"
	Added   Kind = "added"
)

// A Span is a passage of a word diff. The spans that are not Added make the text
// before, and those that are not Removed the text after.
type Span struct {
	Kind Kind
	Text string
}

// maxDistance is how many words may differ. Beyond it the whole passage between
// the first and the last difference is shown as replaced: time and memory grow
// with the square, which is 4 MB here.
const maxDistance = 1_000

// Words returns the word diff between two texts. Spans of the same kind do not
// follow each other, and what was removed stands before what was added.
func Words(before, after string) []Span {
	a, b := tokens(before), tokens(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var d spans
	d.add(Same, a[:head])
	d.middle(a[head:len(a)-tail], b[head:len(b)-tail])
	d.add(Same, a[len(a)-tail:])
	d.flush()
	return d.all
}

// tokens splits a text into words, runs of spaces, newlines and single other
// characters.
func tokens(s string) (all []string) {
	for s != "" {
		class := classOf(s)
		n := 0
		for n < len(s) && (n == 0 || class != 0 && classOf(s[n:]) == class) {
			_, size := utf8.DecodeRuneInString(s[n:])
			n += size
		}
		all = append(all, s[:n])
		s = s[n:]
	}
	return all
}

// classOf is that of the first character: 0 for one that is a token alone.
func classOf(s string) int {
	switch r, _ := utf8.DecodeRuneInString(s); {
	case r == '\n':
		return 0
	case unicode.IsSpace(r):
		return 1
	case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
		return 2
	}
	return 0
}

// spans collects a diff.
type spans struct {
	all                  []Span
	same, removed, added strings.Builder // what is not in all yet
}

func (d *spans) add(k Kind, words []string) {
	if len(words) == 0 {
		return
	}
	into := &d.same
	switch k {
	case Removed:
		into = &d.removed
	case Added:
		into = &d.added
	case Same:
		if d.removed.Len()+d.added.Len() > 0 {
			d.flush()
		}
	}
	for _, w := range words {
		into.WriteString(w)
	}
}

func (d *spans) flush() {
	for _, s := range []Span{{Same, d.same.String()}, {Removed, d.removed.String()}, {Added, d.added.String()}} {
		if s.Text != "" {
			d.all = append(d.all, s)
		}
	}
	d.same.Reset()
	d.removed.Reset()
	d.added.Reset()
}

// middle compares by the algorithm of Myers: the furthest point on each diagonal,
// for one more difference at a time.
func (d *spans) middle(a, b []string) {
	if len(a) == 0 || len(b) == 0 {
		d.add(Removed, a)
		d.add(Added, b)
		return
	}
	var trace [][]int32 // furthest x by diagonal -n..n, for each number n of differences
	furthest := func(n, k int) int32 { return trace[n][k+n] }
	comesDown := func(n, k int) bool { // by an addition, rather than a removal
		return k == -n || k != n && furthest(n-1, k-1) < furthest(n-1, k+1)
	}
	for n := 0; ; n++ {
		if n > maxDistance {
			d.add(Removed, a)
			d.add(Added, b)
			return
		}
		row := make([]int32, 2*n+1)
		trace = append(trace, row)
		for k := -n; k <= n; k += 2 {
			x := int32(0)
			switch {
			case n == 0:
			case comesDown(n, k):
				x = furthest(n-1, k+1)
			default:
				x = furthest(n-1, k-1) + 1
			}
			for int(x) < len(a) && int(x)-k >= 0 && int(x)-k < len(b) && a[x] == b[int(x)-k] {
				x++
			}
			row[k+n] = x
			if int(x) >= len(a) && int(x)-k >= len(b) {
				d.replay(a, b, n, k, comesDown, furthest)
				return
			}
		}
	}
}

// replay walks back from the end of both texts, and adds what it met in order.
func (d *spans) replay(a, b []string, n, k int, comesDown func(n, k int) bool, furthest func(n, k int) int32) {
	type step struct {
		kind Kind
		word string
	}
	var steps []step
	x := len(a)
	y := len(b)
	for ; n >= 0; n-- {
		from := 0
		down := n > 0 && comesDown(n, k)
		switch {
		case n == 0:
		case down:
			from = int(furthest(n-1, k+1))
		default:
			from = int(furthest(n-1, k-1)) + 1
		}
		for x > from && y > 0 {
			x, y = x-1, y-1
			steps = append(steps, step{Same, a[x]})
		}
		switch {
		case n == 0:
		case down:
			y--
			k++
			steps = append(steps, step{Added, b[y]})
		default:
			x--
			k--
			steps = append(steps, step{Removed, a[x]})
		}
	}
	for _, s := range slices.Backward(steps) {
		d.add(s.kind, []string{s.word})
	}
}
