package verify

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// What JavaScript means by white space and by the end of a line, to be put in brackets.
const (
	jsSpace      = `\s\v\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	jsTerminator = `\n\r\x{2028}\x{2029}`
)

// compileJavaScript compiles a regular expression of JavaScript. Whatever RE2 lacks
// (lookaround, back-references, the flags v and y) is an error.
func compileJavaScript(expression, flags string) (*pattern, error) {
	ours := ""
	for _, flag := range flags {
		switch flag {
		case 'i', 'm', 's':
			ours += string(flag)
		case 'd', 'g', 'u': // about what a match returns, or how escapes are read
		default:
			return nil, fmt.Errorf("the flag %c of regular expressions is not supported", flag)
		}
	}
	translated, err := fromJavaScript(expression, strings.Contains(flags, "s"))
	if err != nil {
		return nil, err
	}
	if ours != "" {
		translated = "(?" + ours + ":" + translated + ")"
	}
	p, err := compilePattern(translated)
	if err != nil {
		return nil, fmt.Errorf("the regular expression %s is not supported here: %w", quote(expression), err)
	}
	return p, nil
}

// fromJavaScript rewrites what has another syntax or meaning in Go: \uXXXX, \s, and the
// dot, which doesn't match line terminators.
func fromJavaScript(expression string, dotAll bool) (string, error) {
	var b strings.Builder
	class := false
	for rest := expression; rest != ""; {
		switch {
		case strings.HasPrefix(rest, `\u{`):
			b.WriteString(`\x{`)
			rest = rest[3:]
			continue
		case unicodeEscape.MatchString(rest):
			b.WriteString(`\x{` + rest[2:6] + `}`)
			rest = rest[6:]
			continue
		case strings.HasPrefix(rest, `\s`), strings.HasPrefix(rest, `\S`):
			switch {
			case class && rest[1] == 's':
				b.WriteString(jsSpace)
			case class:
				return "", errors.New(`\S inside brackets is not supported`)
			case rest[1] == 's':
				b.WriteString("[" + jsSpace + "]")
			default:
				b.WriteString("[^" + jsSpace + "]")
			}
			rest = rest[2:]
			continue
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(rest[:2])
			rest = rest[2:]
			continue
		case !class && strings.HasPrefix(rest, "[]"):
			return "", errors.New("empty brackets are not supported")
		case !class && strings.HasPrefix(rest, "[^]"):
			b.WriteString(`(?s:.)`)
			rest = rest[3:]
			continue
		case class && rest[0] == '[': // a literal; in Go it may begin [:alpha:]
			b.WriteString(`\[`)
		case rest[0] == '[':
			class = true
			b.WriteByte('[')
		case rest[0] == ']':
			class = false
			b.WriteByte(']')
		case rest[0] == '.' && !class && !dotAll:
			b.WriteString("[^" + jsTerminator + "]")
		default:
			b.WriteByte(rest[0])
		}
		rest = rest[1:]
	}
	return b.String(), nil
}

var unicodeEscape = regexp.MustCompile(`^\\u[0-9A-Fa-f]{4}`)

// count returns how many times the pattern matches in a text, up to a limit. The
// matcher may read the rest of the text for each match, and is charged for it
// before.
func (p *pattern) count(b *budget, text string, limit int) (int, error) {
	reads := int64(min(limit, len(text)) + 1)
	if reads > maxCost || b.spend(p.size*reads*int64(len(text)+1)) != nil {
		return 0, errTooComplex
	}
	return len(p.FindAllStringIndex(text, limit)), nil
}
