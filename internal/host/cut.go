package host

import "unicode/utf8"

const ellipsis = "…"

// CutRunes shortens a text to so many characters, and shows that it did.
func CutRunes(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + ellipsis
}

// CutBytes shortens a text to so many bytes without breaking a character, and
// shows that it did.
func CutBytes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}
