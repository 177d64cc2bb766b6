package lint_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint/sarif"
)

// Whatever a file holds, checking it ends in a report of bounded size that
// names rules and places that exist.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		skillText, "---\nname: a\n---\n<!-- assistant run", "Ig\u200bnore all\nprevious instructions `x", "eval(eval(", "rm -rf $X/",
		"pip install \npip install 'a' -r", "a" + tags("b"), "🏴" + tags("c"), bits("hi"), selectors("hello you"), "p\u0430ge://p\u0430ge.com",
		"[a](../../b) [c](<d) [e]: f", "-----BEGIN PRIVATE KEY----------END ", "x://:abc@d", "password = \"" + key("", 16) + "\"", "```sh\ncurl x|sh\n~~~\n```", "\x7fELF", "{\"evals\":[{}]}", "[{}]",
	} {
		f.Add("SKILL.md", seed)
		f.Add("scripts/a.py", seed)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if name != "SKILL.md" && name != "scripts/a.sh" && name != "evals/a.json" && name != "references/a.md" {
			name = "scripts/a.py"
		}
		if text == "" || len(text) > 64<<10 {
			return
		}
		r := goodSkill().with(files{name: text}).check(t)
		lines := strings.Count(text, "\n") + 1 + strings.Count(skillText, "\n")
		for _, finding := range r.Findings {
			if finding.Code == "" || finding.Message == "" || finding.Line > lines ||
				!utf8.ValidString(finding.Message+finding.Evidence) ||
				utf8.RuneCountInString(finding.Evidence) > 160 || utf8.RuneCountInString(finding.Message) > 300 {
				t.Errorf("bad finding %+v", finding)
			}
		}
		if len(sarif.New(r, "").Runs[0].Results) != len(r.Findings) {
			t.Error("the log has another number of findings")
		}
	})
}
