package quality

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// TestApplyDiff applies what the server's own diffs say, whatever the texts are.
func TestApplyDiff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", "+c", "-d", " e", "@@ -1 +1 @@"}), 0, 12)
		text := func(name string) string {
			out := strings.Join(lines.Draw(t, name), "\n")
			if rapid.Bool().Draw(t, name+" ends") {
				out += "\n"
			}
			return out
		}
		before, after := text("before"), text("after")
		if before == after {
			return
		}
		diff := string(compare.Texts("SKILL.md", before, after))
		if got, err := applyDiff(before, diff); err != nil || got != after {
			t.Fatalf("got %q, %v; want %q by\n%s", got, err, after, diff)
		}
	})
}

func TestApplyDiffRefuses(t *testing.T) {
	diff := string(compare.Texts("SKILL.md", "one\ntwo\nthree\n", "one\n2\nthree\n"))
	for name, c := range map[string]struct{ text, diff, want string }{
		"another line":     {"one\nTwo\nthree\n", diff, "line 2 differs"},
		"another context":  {"one\ntwo\nthree!\n", diff, "line 3 differs"},
		"a line before it": {"zero\none\ntwo\nthree\n", diff, "line 1 differs"},
		"shorter":          {"one\n", diff, "line 2 differs"},
		"far away":         {"one\n", "@@ -9,1 +9,1 @@\n-nine\n+9\n", "no line 9"},
		"no diff":          {"one\n", "", "empty"},
		"nonsense":         {"one\n", "@@ -1 +1 @@\nx\n", "not valid"},
	} {
		if _, err := applyDiff(c.text, c.diff); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
