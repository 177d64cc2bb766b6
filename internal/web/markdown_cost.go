package web

import (
	"bytes"
	"strings"
)

// The Markdown library takes time and memory that grow with the square of some
// constructs: rows of a wide table, brackets, delimiters, nested lists. The cost of
// a text is therefore estimated line by line before it is rendered, with an upper
// bound, and a text over a limit is shown as plain text (denial of service). Each
// limit is far above what people write; at it, rendering takes about 100 ms.
const (
	maxColumns = 100
	maxCells   = 20_000
	// maxNested bounds the lines times the depth of the deepest list or quote:
	// the parser looks at every open block for each line.
	maxNested        = 200_000
	maxMarkdownLines = 10_000
	maxDepth         = 32
	// maxPairs bounds, summed over paragraphs, the square of the number of
	// characters that may open or close something.
	maxPairs = 9_000_000
	// maxExpanded bounds the bytes that reference links can expand to.
	maxExpanded = 4 << 20
)

// A cost is what rendering a text would take at most.
type cost struct {
	lines, depth   int
	columns, cells int
	pairs          int
	brackets       int
	definitions    int // bytes of the paragraphs that may define references
	paragraph      paragraphCost
}

// A paragraphCost is the same of the lines since the last blank one, which no
// paragraph, table or list of delimiters extends over.
type paragraphCost struct {
	bytes, columns                    int
	brackets, delimiters, ticks, tags int
	labels, defines                   bool // a line begins with "[", and "]:" follows: "[a]: /url"
}

// tooHeavy reports whether a text should not be rendered.
func tooHeavy(source string) bool { return weigh(source).tooHeavy() }

// weigh reads a text once.
func weigh(source string) cost {
	var c cost
	for line := range strings.Lines(source) {
		c.add([]byte(line))
	}
	c.endParagraph()
	return c
}

func (c cost) tooHeavy() bool {
	return c.lines > maxMarkdownLines || c.columns > maxColumns || c.cells > maxCells || c.depth > maxDepth ||
		c.lines*c.depth > maxNested || c.pairs > maxPairs || c.definitions*c.brackets > maxExpanded
}

func (c *cost) add(line []byte) {
	c.lines++
	depth, rest := nesting(line)
	c.depth = max(c.depth, depth)
	p := &c.paragraph
	if len(bytes.TrimSpace(line)) == 0 {
		c.endParagraph()
		return
	}
	// A line of dashes and pipes makes a table of what follows, each row padded
	// to its columns.
	c.cells += p.columns
	if row := bytes.TrimLeft(line, " \t>"); len(bytes.Trim(row, " \t\r\n\v\f-|:")) == 0 {
		p.columns = max(p.columns, bytes.Count(row, []byte("|"))+1)
		c.columns = max(c.columns, p.columns)
	}
	p.bytes += len(line)
	p.labels = p.labels || bytes.HasPrefix(rest, []byte("["))
	p.defines = p.defines || p.labels && bytes.Contains(line, []byte("]:"))
	for _, b := range line {
		switch b {
		case '[', ']', '(', '!':
			p.brackets++
		case '*', '_', '~':
			p.delimiters++
		case '`':
			p.ticks++
		case '<':
			p.tags++
		}
	}
}

func (c *cost) endParagraph() {
	p := c.paragraph
	for _, n := range []int{p.brackets, p.delimiters, p.ticks, p.tags} {
		c.pairs += n * n
	}
	c.brackets += p.brackets
	if p.defines {
		c.definitions += p.bytes
	}
	c.paragraph = paragraphCost{}
}

// nesting is how many lists and quotes a line can begin or continue: one for
// each marker that it begins with, and one for every two columns before them. A
// line without a marker opens none. The rest is what follows.
func nesting(line []byte) (depth int, rest []byte) {
	markers, columns := 0, 0
	for rest = line; len(rest) > 0; {
		n := markerLength(rest)
		switch {
		case n > 0:
			markers++
		case rest[0] == ' ':
			columns, n = columns+1, 1
		case rest[0] == '\t':
			columns, n = columns+4, 1
		}
		if n == 0 {
			break
		}
		rest = rest[n:]
	}
	if markers == 0 {
		return 0, rest
	}
	return markers + columns/2, rest
}

// markerLength is the length of the marker of a quote or a list item that a line
// begins with, or 0.
func markerLength(line []byte) int {
	if line[0] == '>' {
		return 1
	}
	n := len(line) - len(bytes.TrimLeft(line, "0123456789"))
	switch {
	case n > 0 && n < len(line) && (line[n] == '.' || line[n] == ')'), n == 0 && bytes.IndexByte([]byte("-+*"), line[0]) >= 0:
		n++
	default:
		return 0
	}
	if n == len(line) || bytes.IndexByte([]byte(" \t\r\n"), line[n]) >= 0 {
		return n
	}
	return 0
}
