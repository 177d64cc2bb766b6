package lint

import (
	"regexp"
	"strings"
)

// maxCall is how much of a call is looked at, in bytes.
const maxCall = 1500

// maxCodeLine is the longest line of a program in which strings are looked for; a
// longer one was written by a program.
const maxCodeLine = 16 << 10

// inProgram makes a pattern for calls in a program: what a string only names is
// not called.
func inProgram(langs lang, code, expression string, keywords ...string) pattern {
	p := runIn(langs, code, expression, keywords...)
	p.accept = func(m match) bool { return !m.isText() }
	return p
}

// startsShell makes a pattern for calls that give a command to a shell. A constant
// command does what it says and is not reported; one that comes in a variable is a
// warning; one that is put together from parts is an error.
func startsShell(langs lang, code, expression string, keywords ...string) pattern {
	p := runIn(langs, code, expression, keywords...)
	p.accept = func(m match) bool { return !m.isText() && m.command() != constantArgument }
	p.weigh = func(r *remark, m match) {
		if m.command() != builtArgument {
			r.lower++
		}
	}
	return p
}

// command judges the call that a match begins, or that it is an argument of.
func (m match) command() argumentKind {
	if strings.HasSuffix(m.text, "(") {
		return argumentOf(m.after() + "\n" + m.rest[:min(len(m.rest), maxCall)])
	}
	_, arguments := m.call()
	return argumentOf(arguments)
}

// runners are calls that start a program.
var runners = regexp.MustCompile(`(?i)(?:system|popen|run|call|output|exec\w*|eval|spawn\w*|shell)$`)

// isData reports whether the match is text that a script handles, and not one that
// it gives to a shell: a table of commands to look for, or a message. Markup that a
// document shows is not run, either.
func (m match) isData() bool {
	if m.fenced && strings.HasPrefix(strings.TrimSpace(m.line.text), "<") {
		return true
	}
	if !m.isText() {
		return false
	}
	name, _ := m.call()
	return !runners.MatchString(name)
}

// call returns the name and the arguments of the call that the match is an argument
// of; they are "" if there is none.
func (m match) call() (name, arguments string) {
	before := m.prior[max(0, len(m.prior)-maxCall):] + "\n" + m.line.text[max(0, m.from-maxCall):m.from]
	depth := 0
	for i := len(before) - 1; i >= 0; i-- {
		switch before[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth < 0 {
				name := strings.TrimRight(before[:i], " ")
				return name[strings.LastIndexAny(name, " \t\n([{=,!&|")+1:], before[i+1:] + m.text
			}
		}
	}
	return "", ""
}

// isText reports whether the match is inside a string of a program.
func (m match) isText() bool {
	at := m.from
	if paren := strings.IndexByte(m.text, '('); paren > 0 { // the match may begin with the character before the name
		at += paren
	}
	inside, _ := m.stringAt(at)
	return inside
}

// stringAt reports whether a position of a line of Python or JavaScript is in a
// string, and which string of Python is open there that may span lines. The
// expressions in a string (f"{x}") are code; so are template literals, which have
// more of it.
func (l line) stringAt(at int) (inside bool, open string) {
	if l.lang&(python|script) == 0 || len(l.text) > maxCodeLine {
		return false, ""
	}
	quote, formatted, depth := l.quote, false, 0
	for i := 0; i < min(at, len(l.text)); i++ {
		rest := l.text[i:]
		switch {
		case quote == "" && (l.lang == python && rest[0] == '#' || l.lang == script && strings.HasPrefix(rest, "//")):
			return false, ""
		case quote == "" && (rest[0] == '"' || rest[0] == '\''):
			quote = rest[:1]
			if l.lang == python && strings.HasPrefix(rest, strings.Repeat(quote, 3)) {
				quote = rest[:3]
			}
			formatted, depth = l.lang == python && i > 0 && strings.ContainsRune("fF", rune(l.text[i-1])), 0
			i += len(quote) - 1
		case quote == "":
		case rest[0] == '\\':
			i++
		case strings.HasPrefix(rest, quote):
			i += len(quote) - 1
			quote = ""
		case formatted && strings.HasPrefix(rest, "{{"):
			i++
		case formatted && rest[0] == '{':
			depth++
		case formatted && rest[0] == '}':
			depth--
		}
	}
	if len(quote) == 3 {
		open = quote
	}
	return quote != "" && depth <= 0, open
}

// An argumentKind is how the text that a program gives to a shell comes about.
type argumentKind int

// The kinds, from the least that is known of them.
const (
	unknownArgument  argumentKind = iota // it is in a variable, or quoted
	constantArgument                     // it is a literal
	builtArgument                        // it is put together from parts
)

var (
	literal = regexp.MustCompile(`^([a-zA-Z]{0,2})("""|'''|["'` + "`])")
	// harmless are parts of a command that cannot change its meaning.
	harmless = regexp.MustCompile(`\$?\{\s*(?:sys\.executable|process\.execPath|[\w.]*(?i:quote|escape|stringify)\w*\()`)
	joined   = regexp.MustCompile(`^[^,)\n]*(?:["'` + "`" + `]\s*[+%]|\+\s*[a-zA-Z]{0,2}["'` + "`" + `]|\.format\()`)
)

// argumentOf judges the first argument of a call, which the text begins with.
func argumentOf(text string) argumentKind {
	found := unknownArgument
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		at := literal.FindStringSubmatch(text)
		if at == nil {
			if found == unknownArgument && joined.MatchString(text) {
				return builtArgument
			}
			return found
		}
		body, rest, ok := cutLiteral(text[len(at[0]):], at[2])
		if !ok {
			return unknownArgument
		}
		parts := 0
		switch {
		case at[2] == "`":
			parts = strings.Count(body, "${")
		case strings.ContainsAny(at[1], "fF"):
			parts = strings.Count(body, "{") - 2*strings.Count(body, "{{")
		}
		switch {
		case parts > len(harmless.FindAllString(body, -1)):
			return builtArgument
		case parts > 0:
			return unknownArgument
		}
		found = constantArgument
		text = strings.TrimLeft(rest, " \t\r\n")
		if text != "" && strings.ContainsRune("+%.", rune(text[0])) {
			return builtArgument
		}
	}
}

// cutLiteral cuts the text of a string off what follows its closing quote.
func cutLiteral(text, quote string) (body, rest string, ok bool) {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], quote):
			return text[:i], text[i+len(quote):], true
		}
	}
	return "", "", false
}
