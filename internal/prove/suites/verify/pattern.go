package verify

import (
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

const (
	// maxPattern bounds the length of a regular expression in bytes, and
	// maxProgram its instructions after compilation: a{1000} has a thousand.
	maxPattern = 10_000
	maxProgram = 10_000
	// compileCost is the cost of compiling one of them.
	compileCost = 100
)

// A pattern is a regular expression whose matching is charged to a budget.
type pattern struct {
	*regexp.Regexp
	size int64 // upper bound of the steps for each character
}

// compilePattern checks the size before it compiles: a few bytes can become a
// program of 128 MiB.
func compilePattern(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the regular expression is longer than %d bytes", maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := programSize(tree)
	if size > maxProgram {
		return nil, fmt.Errorf("the regular expression is too large: it becomes %d instructions, and %d are allowed",
			size, maxProgram)
	}
	compiled, err := regexp.Compile(text)
	return &pattern{compiled, size}, err
}

// programSize estimates the instructions of an expression. The parser bounds its depth
// and the product of nested repetitions, so the recursion is bounded, too.
func programSize(re *syntax.Regexp) (size int64) {
	for _, sub := range re.Sub {
		size += programSize(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return int64(len(re.Rune))
	case syntax.OpConcat:
		return size
	case syntax.OpRepeat: // an optional part has one more
		return size*int64(re.Min) + (size+1)*int64(max(re.Max-re.Min, 1))
	case syntax.OpCapture:
		return size + 2
	case syntax.OpAlternate:
		return size + int64(len(re.Sub))
	default:
		return size + 1
	}
}

// match reports whether the pattern matches a part of a text. With an error, which is
// the budget's, the result is meaningless.
func (p *pattern) match(b *budget, text string) (bool, error) {
	found := p.MatchReader(&meteredReader{text: text, cost: p.size, budget: b})
	return found, b.err
}

// A meteredReader charges the budget for each character. Once it is used up the text
// ends.
type meteredReader struct {
	text   string
	cost   int64
	budget *budget
}

// ReadRune implements io.RuneReader.
func (r *meteredReader) ReadRune() (char rune, size int, err error) {
	if r.text == "" || r.budget.spend(r.cost) != nil {
		return 0, 0, io.EOF
	}
	char, size = utf8.DecodeRuneInString(r.text)
	r.text = r.text[size:]
	return char, size, nil
}
