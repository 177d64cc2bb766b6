// Package text shortens and cleans text that comes from outside: truncation
// between two characters, white space collapsed to one line, and the removal
// of what PostgreSQL refuses to store (NUL and invalid UTF-8).
package text

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "…"

// Truncate returns at most limit bytes of s, without half a character at the
// end: Truncate("naïve", 3) is "na".
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// TruncateRunes returns at most limit characters of s.
func TruncateRunes(s string, limit int) string {
	for i := range s {
		if limit--; limit < 0 {
			return s[:i]
		}
	}
	return s
}

// Tail returns at most the last limit bytes of s, without half a character at
// the beginning.
func Tail(s string, limit int) string {
	start := len(s) - limit
	if start <= 0 {
		return s
	}
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return s[start:]
}

// Ellipsis truncates s to limit characters, the last of which is then "…".
func Ellipsis(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return TruncateRunes(s, limit-1) + ellipsis
}

// EllipsisBytes truncates s to limit bytes, "…" included.
func EllipsisBytes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return Truncate(s, limit-len(ellipsis)) + ellipsis
}

// OneLine collapses white space: every run of it becomes one space, and none
// is left at the ends.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Valid reports whether both databases store s as it is: PostgreSQL refuses
// NUL and invalid UTF-8.
func Valid(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// ValidBytes is Valid for the content of a file. What it refuses is binary.
func ValidBytes(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// Clean replaces what Valid refuses with U+FFFD, the replacement character.
func Clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// PlainLine makes untrusted text safe to show in one line: control characters,
// line separators, bidirectional overrides and invalid UTF-8 are replaced, and
// white space is collapsed.
func PlainLine(s string) string {
	return OneLine(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}
