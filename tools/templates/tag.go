package main

import "strings"

// A part is a piece of a tag, e.g. an attribute, or an action around some:
// {{if .Current}} aria-current="page"{{end}}.
type part struct {
	text  string
	glued bool // no white space before it, because it begins with an action that has its own
}

// tagParts splits a tag where a line may end: at white space outside of quotes and
// actions, and before an action that is around attributes. Inside of that, it splits
// only if it is told to.
func tagParts(tag string, inside bool) []part {
	var parts []part
	var b strings.Builder
	glued := false
	flush := func() {
		if b.Len() > 0 {
			parts = append(parts, part{b.String(), glued})
			b.Reset()
		}
		glued = false
	}
	var quote byte
	depth := 0
	for i := 0; i < len(tag); {
		if strings.HasPrefix(tag[i:], "{{") {
			text := tag[i : i+actionEnd(tag[i:])]
			i += len(text)
			switch verbOf(plainAction(text)) {
			case "if", "with", "range":
				if depth == 0 && quote == 0 && ownSpace(tag[i:]) {
					flush()
					glued = true
				}
				depth++
			case "end":
				depth--
			}
			if quote == 0 { // where white space shows, so do trim markers
				text = plainAction(text)
			}
			b.WriteString(text)
			continue
		}
		c := tag[i]
		i++
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && isSpace(c):
			for i < len(tag) && isSpace(tag[i]) {
				i++
			}
			if depth == 0 || inside {
				flush()
				continue
			}
			c = ' '
		}
		b.WriteByte(c)
	}
	flush()
	// A slash or angle that stands alone belongs to the attribute before.
	if last := len(parts) - 1; last > 0 && (parts[last].text == ">" || parts[last].text == "/>") {
		parts[last-1].text += parts[last].text
		parts = parts[:last]
	}
	return parts
}

// ownSpace tells of the text behind {{if}} whether each of its branches begins with
// white space, so that none is needed before it.
func ownSpace(s string) bool {
	depth, start := 0, true
	for i := 0; i < len(s); {
		if strings.HasPrefix(s[i:], "{{") {
			end := actionEnd(s[i:])
			verb := verbOf(plainAction(s[i : i+end]))
			switch {
			case verb == "if" || verb == "with" || verb == "range":
				if start {
					return false
				}
				depth++
			case verb == "end" && depth == 0:
				return true
			case verb == "end":
				depth--
			case verb == "else" && depth == 0:
				start = true
			case start:
				return false
			}
			i += end
			continue
		}
		if start && !isSpace(s[i]) {
			return false
		}
		start = false
		i++
	}
	return false
}

// flatTag writes a tag on one line.
func flatTag(tag string) string {
	var b strings.Builder
	for i, p := range tagParts(tag, false) {
		if i > 0 && !p.glued {
			b.WriteByte(' ')
		}
		b.WriteString(p.text)
	}
	return b.String()
}
