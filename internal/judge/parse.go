package judge

import "strings"

// stripThinking removes the reasoning that some local models write before their
// answer, between <think> and </think>.
func stripThinking(text string) string {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "<think>"); ok {
		if _, answer, ok := strings.Cut(rest, "</think>"); ok {
			return strings.TrimSpace(answer)
		}
	}
	return text
}

// firstJSONObject returns the first balanced {...} of an answer, without the
// code fence and the text around it. Braces in strings do not count.
func firstJSONObject(text string) (string, bool) {
	start := strings.IndexByte(text, '{')
	if start < 0 {
		return "", false
	}
	depth, quoted, escaped := 0, false, false
	for i := start; i < len(text); i++ {
		c := text[i]
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = c == '\\'
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return text[start : i+1], true
			}
		}
	}
	return "", false
}
