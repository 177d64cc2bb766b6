package text_test

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

func TestShortening(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(string, int) string
		in   string
		n    int
		want string
	}{
		{"truncate/fits", text.Truncate, "naïve", 6, "naïve"},
		{"truncate/half a character", text.Truncate, "naïve", 3, "na"},
		{"truncate/nothing", text.Truncate, "ï", 1, ""},
		{"truncate/zero", text.Truncate, "a", 0, ""},
		{"truncate/invalid bytes only", text.Truncate, "\x80\x80\x80", 2, ""},
		{"runes/fits", text.TruncateRunes, "naïve", 5, "naïve"},
		{"runes/cut", text.TruncateRunes, "naïve", 3, "naï"},
		{"runes/zero", text.TruncateRunes, "naïve", 0, ""},
		{"tail/fits", text.Tail, "naïve", 6, "naïve"},
		{"tail/half a character", text.Tail, "naïve", 3, "ve"},
		{"ellipsis/fits", text.Ellipsis, "naïve", 5, "naïve"},
		{"ellipsis/cut", text.Ellipsis, "naïve", 4, "naï…"},
		{"ellipsis bytes/fits", text.EllipsisBytes, "naïve", 6, "naïve"},
		{"ellipsis bytes/cut", text.EllipsisBytes, "naïveté", 7, "naï…"},
	} {
		if got := c.f(c.in, c.n); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCleaning(t *testing.T) {
	if got, want := text.OneLine("  a\n\tb\u00a0 c "), "a b c"; got != want {
		t.Errorf("OneLine: got %q, want %q", got, want)
	}
	if got, want := text.PlainLine("a\x1b[31m\u2028b\u202ec\xff\n"), "a [31m b c\uFFFD"; got != want {
		t.Errorf("PlainLine: got %q, want %q", got, want)
	}
	for in, want := range map[string]string{"ok ï": "ok ï", "a\x00b": "a\uFFFDb", "a\xff\xfeb": "a\uFFFDb"} {
		got := text.Clean(in)
		if got != want || !text.Valid(got) {
			t.Errorf("Clean(%q): got %q, want %q", in, got, want)
		}
		if text.Valid(in) != (in == want) || text.ValidBytes([]byte(in)) != (in == want) {
			t.Errorf("Valid(%q): got %v", in, text.Valid(in))
		}
	}
}

// TestPlainLineTables compares PlainLine with the tables of package unicode.
func TestPlainLineTables(t *testing.T) {
	t.Parallel()
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || unicode.IsSpace(r) {
			continue
		}
		want := "a" + string(r) + "b"
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			want = "a b"
		}
		if got := text.PlainLine("a" + string(r) + "b"); got != want {
			t.Errorf("%U: %q, want %q", r, got, want)
		}
	}
	for in, want := range map[string]string{"": "", " ": "", " a": "a", "a ": "a", "a  b": "a b", "a b": "a b", "\ta\n": "a", "\x7f": "", "a\u2028b": "a b"} {
		if got := text.PlainLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
