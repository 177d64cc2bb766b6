package transcripts

import (
	"regexp"
	"slices"
	"strings"
)

// A step is a pipeline of a script, e.g. `go test ./... | tail`.
type step struct {
	operator   string // before it: "", "&&", "||", ";" or "&"
	commands   []command
	background bool
}

// A command is its words: the name, then the arguments. Quotes are removed; what the
// shell would substitute is left as it is written.
type command []string

const (
	maxShellLine = 64 << 10 // bytes of a command line that is parsed
	maxNest      = 16       // of substitutions in substitutions
)

// parse splits a command line. It reports false for what it does not understand, e.g.
// loops, functions and subshells.
func parse(line string) ([]step, bool) {
	if len(line) > maxShellLine {
		return nil, false
	}
	p := &parser{rest: line}
	ok := p.script()
	return p.steps, ok
}

type parser struct {
	rest     string
	steps    []step
	here     []string // delimiters of here-documents that begin after this line
	operator string
	pipe     []command
	words    command
	word     strings.Builder
	inWord   bool
}

// keywords begin or end what is more than a list of pipelines.
var keywords = []string{
	"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function", "coproc",
	"{", "}", "[[", "!",
}

// script reads everything.
func (p *parser) script() bool {
	for p.rest != "" {
		c := p.rest[0]
		switch {
		case c == '\\' && len(p.rest) > 1:
			if p.rest[1] != '\n' { // else the line goes on
				p.add(p.rest[1:2])
			}
			p.skip(2)
		case c == '\'':
			text, after, ok := strings.Cut(p.rest[1:], "'")
			if !ok {
				return false
			}
			p.add(text)
			p.rest = after
		case c == '"':
			n := quotedLength(p.rest, 0)
			if n < 0 {
				return false
			}
			p.add(strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(p.rest[1 : n-1]))
			p.skip(n)
		case c == '`', strings.HasPrefix(p.rest, "$("):
			n := substitutionLength(p.rest, 0)
			if n < 0 {
				return false
			}
			p.add(p.rest[:n])
			p.skip(n)
		case c == '(' || c == ')':
			return false
		case c == '#' && !p.inWord:
			_, p.rest, _ = strings.Cut(p.rest, "\n")
			p.rest = "\n" + p.rest
		case c == ' ' || c == '\t' || c == '\r':
			p.endWord()
			p.skip(1)
		case strings.HasPrefix(p.rest, "<<"), c == '<', c == '>', strings.HasPrefix(p.rest, "&>"):
			if !p.redirect() {
				return false
			}
		case strings.IndexByte(";|&\n", c) >= 0:
			if !p.separate() {
				return false
			}
		default:
			p.add(p.rest[:1])
			p.skip(1)
		}
	}
	return p.endPipeline(false) && len(p.here) == 0
}

func (p *parser) skip(n int) { p.rest = p.rest[n:] }

func (p *parser) add(text string) {
	p.inWord = true
	p.word.WriteString(text)
}

func (p *parser) endWord() {
	if p.inWord {
		p.words = append(p.words, p.word.String())
	}
	p.word.Reset()
	p.inWord = false
}

var (
	hereDocument = regexp.MustCompile(`^<<-?[ \t]*(?:'([^'\n]+)'|"([^"\n]+)"|\\?([\w.-]+))`)
	redirection  = regexp.MustCompile(`^(?:&>>?|>>|>\||>|<>|<<<|<)(?:&(?:\d+-?|-))?[ \t]*`)
)

// redirect skips a redirection without its target, e.g. ">>" or "2>&1", and notes a
// here-document.
func (p *parser) redirect() bool {
	if match := hereDocument.FindStringSubmatch(p.rest); match != nil && !strings.HasPrefix(p.rest, "<<<") {
		p.endRedirected()
		p.here = append(p.here, match[1]+match[2]+match[3])
		p.skip(len(match[0]))
		return true
	}
	if strings.HasPrefix(p.rest, "<(") || strings.HasPrefix(p.rest, ">(") {
		return false
	}
	mark := redirection.FindString(p.rest)
	if mark == "" {
		return false
	}
	p.endRedirected()
	p.skip(len(mark))
	if strings.ContainsAny(mark[1:], "0123456789-") {
		return true // of one descriptor to another
	}
	p.words = append(p.words, redirected) // the next word is the target
	return true
}

// redirected stands before the target of a redirection.
const redirected = "\x00"

// endRedirected ends the word before a redirection, unless it is the number of the
// descriptor.
func (p *parser) endRedirected() {
	if number := p.word.String(); number != "" && strings.Trim(number, "0123456789") == "" {
		p.word.Reset()
		p.inWord = false
	}
	p.endWord()
}

// separate reads an operator between commands.
func (p *parser) separate() bool {
	for _, operator := range []string{"&&", "||", "|&", ";;", ";", "|", "&", "\n"} {
		if !strings.HasPrefix(p.rest, operator) {
			continue
		}
		p.skip(len(operator))
		switch operator {
		case ";;":
			return false
		case "|", "|&":
			return p.endCommand()
		case "\n":
			p.endWord()
			if !p.skipHere() {
				return false
			}
			if len(p.words) == 0 && (len(p.pipe) > 0 || p.operator == "&&" || p.operator == "||") {
				return true // the line ended with an operator
			}
			operator = ";"
		}
		if !p.endPipeline(operator == "&") {
			return false
		}
		if p.operator == "" || len(p.steps) > 0 {
			p.operator = operator
		}
		return true
	}
	return false
}

// skipHere skips the here-documents after the end of a line.
func (p *parser) skipHere() bool {
	for _, delimiter := range p.here {
		n := hereLength(p.rest, delimiter)
		if n < 0 {
			return false
		}
		p.skip(n)
	}
	p.here = nil
	return true
}

// endCommand ends a command of a pipeline.
func (p *parser) endCommand() bool {
	p.endWord()
	var words command
	for i := 0; i < len(p.words); i++ {
		if p.words[i] == redirected {
			i++
			continue
		}
		words = append(words, p.words[i])
	}
	p.words = nil
	if len(words) == 0 || slices.Contains(keywords, words[0]) || strings.HasSuffix(words[0], "()") {
		return false
	}
	p.pipe = append(p.pipe, words)
	return true
}

// endPipeline ends a pipeline, of which there need not be one: lines may be empty.
func (p *parser) endPipeline(background bool) bool {
	p.endWord()
	if len(p.words) == 0 && len(p.pipe) == 0 {
		return !background && p.operator != "&&" && p.operator != "||"
	}
	if !p.endCommand() {
		return false
	}
	p.steps = append(p.steps, step{p.operator, p.pipe, background})
	p.pipe = nil
	return true
}

// quotedLength returns the length of the text in double quotes that s begins with, -1
// if it does not end.
func quotedLength(s string, depth int) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '"':
			return i + 1
		case s[i] == '`', strings.HasPrefix(s[i:], "$("):
			n := substitutionLength(s[i:], depth+1)
			if n < 0 {
				return -1
			}
			i += n - 1
		}
	}
	return -1
}

// substitutionLength returns the length of the command substitution that s begins
// with, -1 if it does not end.
func substitutionLength(s string, depth int) int {
	if depth > maxNest {
		return -1
	}
	if s[0] == '`' {
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '`':
				return i + 1
			}
		}
		return -1
	}
	open := 0
	var here []string
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return -1
			}
			i += end + 1
		case c == '"':
			n := quotedLength(s[i:], depth+1)
			if n < 0 {
				return -1
			}
			i += n - 1
		case c == '<' && hereDocument.MatchString(s[i:]) && !strings.HasPrefix(s[i:], "<<<"):
			match := hereDocument.FindStringSubmatch(s[i:])
			here = append(here, match[1]+match[2]+match[3])
			i += len(match[0]) - 1
		case c == '\n':
			for _, delimiter := range here {
				n := hereLength(s[i+1:], delimiter)
				if n < 0 {
					return -1
				}
				i += n
			}
			here = nil
		case c == '(':
			open++
		case c == ')':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// hereLength returns the length of a here-document and the line that ends it, -1 if
// none does.
func hereLength(s, delimiter string) (n int) {
	for line := range strings.Lines(s) {
		n += len(line)
		if strings.Trim(line, "\t\r\n") == delimiter {
			return n
		}
	}
	return -1
}
