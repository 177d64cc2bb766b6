package lint

import (
	"regexp"
	"strings"
)

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
