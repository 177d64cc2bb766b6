package compare_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

func TestWords(t *testing.T) {
	t.Parallel()
	same := func(s string) compare.Span { return compare.Span{Kind: compare.Same, Text: s} }
	removed := func(s string) compare.Span { return compare.Span{Kind: compare.Removed, Text: s} }
	added := func(s string) compare.Span { return compare.Span{Kind: compare.Added, Text: s} }
	for name, tc := range map[string]struct {
		before, after string
		want          []compare.Span
	}{
		"equal":    {"a b", "a b", []compare.Span{same("a b")}},
		"empty":    {"", "", nil},
		"all new":  {"", "a b", []compare.Span{added("a b")}},
		"all gone": {"a b", "", []compare.Span{removed("a b")}},
		"a word": {
			"Write the sum in euros.", "Write the sum in cents.",
			[]compare.Span{same("Write the sum in "), removed("euros"), added("cents"), same(".")},
		},
		"a line": {"a\nb\n", "a\nc d\nb\n", []compare.Span{same("a\n"), added("c d\n"), same("b\n")}},
		"two places": {
			"one two three four five", "one 2 three four 5",
			[]compare.Span{same("one "), removed("two"), added("2"), same(" three four "), removed("five"), added("5")},
		},
		"umlauts": {"über Straße", "über Gasse", []compare.Span{same("über "), removed("Straße"), added("Gasse")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, compare.Words(tc.before, tc.after)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWordsMakeBothTexts compares random texts, and texts with too many
// differences to find the fewest.
func TestWordsMakeBothTexts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	text := func(n, words int) string {
		var b strings.Builder
		for range n {
			b.WriteString([]string{"a", "b", "cc", "\n", "é", ".", "`"}[random.IntN(words)])
			b.WriteString([]string{" ", "", "  "}[random.IntN(3)])
		}
		return b.String()
	}
	check := func(before, after string) {
		t.Helper()
		var old, now strings.Builder
		for _, s := range compare.Words(before, after) {
			if s.Kind != compare.Added {
				old.WriteString(s.Text)
			}
			if s.Kind != compare.Removed {
				now.WriteString(s.Text)
			}
		}
		if old.String() != before || now.String() != after {
			t.Errorf("Words(%q, %q) makes %q and %q", before, after, old.String(), now.String())
		}
	}
	for range 500 {
		check(text(random.IntN(30), 7), text(random.IntN(30), 7))
	}
	check(text(5_000, 7), text(5_000, 7))
	check(strings.Repeat("a ", 5_000), strings.Repeat("b ", 5_000))
}
