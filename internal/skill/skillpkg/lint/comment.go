package lint

import "strings"

// lookAhead is how far a line is searched for the end of inline code, and a document
// for the end of a paragraph, in bytes.
const lookAhead = 2048

// commentedAt reports whether an HTML comment is open at a position of a line,
// given whether one is open at its beginning; rest is the document after the line.
func commentedAt(text, rest string, open bool, at int) bool {
	closing := strings.LastIndex(text, "-->")
	for i := 0; i < at; {
		marks := "<`"
		if open {
			marks = "-"
		}
		found := strings.IndexAny(text[i:], marks)
		if found < 0 || i+found >= at {
			return open
		}
		i += found
		switch {
		case open && strings.HasPrefix(text[i:], "-->"):
			open = false
			i += len("-->")
		case text[i] == '`':
			i += spanLength(text[i:min(i+lookAhead, len(text))])
		case !open && strings.HasPrefix(text[i:], "<!--") && (i < closing || opensComment(text[:i], rest)):
			open = true
			i += len("<!--")
		default:
			i++
		}
	}
	return open
}

// spanLength returns the length of the inline code that a text begins with, or that
// of its backticks if they are not closed.
func spanLength(text string) int {
	marks := len(text) - len(strings.TrimLeft(text, "`"))
	for at := marks; ; {
		found := strings.Index(text[at:], text[:marks])
		if found < 0 {
			return marks
		}
		at += found
		run := len(text[at:]) - len(strings.TrimLeft(text[at:], "`"))
		at += run
		if run == marks {
			return at
		}
	}
}

// opensComment reports whether a renderer takes "<!--" for a comment that is not
// closed in its line, given what is before it and after the line. One that begins a
// line is open until it is closed, be it at the end of the document; one inside a
// paragraph has to be closed in it.
func opensComment(before, rest string) bool {
	if strings.Trim(before, " >") == "" {
		return true
	}
	paragraph, _, ends := strings.Cut(rest[:min(len(rest), lookAhead)], "\n\n")
	return strings.Contains(paragraph, "-->") || !ends && len(rest) > lookAhead
}
