package requires_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

type req = requires.Requirement

func TestParse(t *testing.T) {
	for text, want := range map[string][]req{
		"":                           nil,
		" , ,":                       nil,
		"name >= 1.2, other":         {{Name: "name", Range: ">= 1.2"}, {Name: "other"}},
		"name>=1.2,other":            {{Name: "name", Range: ">=1.2"}, {Name: "other"}},
		"a >= 1.2, < 2, b":           {{Name: "a", Range: ">= 1.2 < 2"}, {Name: "b"}},
		"a ^1.2 || ^2":               {{Name: "a", Range: "^1.2 || ^2"}},
		"a 1.x":                      {{Name: "a", Range: "1.x"}},
		"a = nightly":                {{Name: "a", Range: "= nightly"}},
		"acme/a, @beta/b ~1.2":       {{Org: "acme", Name: "a"}, {Org: "beta", Name: "b", Range: "~1.2"}},
		"Acme Corp/a >= 1":           {{Org: "Acme Corp", Name: "a", Range: ">= 1"}},
		"ｐｄｆ":                        {{Name: "pdf"}}, // as names in SKILL.md are normalised
		"a，b／c":                      {{Name: "a"}, {Org: "b", Name: "c"}},
		"übersetzer":                 {{Name: "übersetzer"}},
		"a\n>= 1,\n\tb":              {{Name: "a", Range: ">= 1"}, {Name: "b"}},
		`<script>alert(1)</script>`:  nil,
		"a >= 1 and then some words": nil,
	} {
		got, problems := requires.Parse(text)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if want != nil && len(problems) > 0 {
			t.Errorf("%q has the problems %q", text, problems)
		}
	}
}

// TestParseProblems names the part that is wrong, and keeps the others.
func TestParseProblems(t *testing.T) {
	for text, want := range map[string]string{
		"good, bad >= x.y":                     `"bad >= x.y" has no range`,
		"good >= 1, <b>bad</b>":                `"<b>bad</b>" has no name of an organisation`,
		"good, bad@1.2":                        `"bad@1.2" must have its version behind a space`,
		"good, /bad":                           `"/bad" has no name of an organisation`,
		"good, acme/":                          `"acme/" has no name of a skill`,
		"good, a/b/c":                          `"a/b/c" must be name or organisation/name`,
		`good, a\b`:                            `"a\\b" must be name or organisation/name`,
		"good, good >= 2":                      `"good >= 2" names the skill a second time`,
		"good, \x1b[31mred":                    "cannot be printed",
		"good, zero\u200bwidth":                "cannot be printed",
		"good, \xff":                           "cannot be printed",
		"good, " + strings.Repeat("n", 101):    "more than 100 characters",
		"good, a " + strings.Repeat(">1 ", 50): "has a range of more than 100",
	} {
		got, problems := requires.Parse(text)
		if len(got) != 1 || got[0].Name != "good" || len(problems) != 1 || !strings.Contains(string(problems[0]), want) {
			t.Errorf("%q: %v, %q", text, got, problems)
		}
	}
}

func TestParseLimits(t *testing.T) {
	if got, problems := requires.Parse(strings.Repeat("a", requires.MaxText+1)); got != nil || len(problems) != 1 {
		t.Errorf("long: %v, %q", got, problems)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("s%d", i))
	}
	got, problems := requires.Parse(strings.Join(many[:200], ","))
	if len(got) != requires.MaxCount || len(problems) != 1 || !strings.Contains(string(problems[0]), "more than 32") {
		t.Errorf("many: %d, %q", len(got), problems)
	}
	if _, problems := requires.Parse(strings.Repeat("!,", 2000)); len(problems) > requires.MaxCount+1 {
		t.Errorf("%d problems", len(problems))
	}
}

func TestAllows(t *testing.T) {
	for _, c := range []struct {
		of, version string
		want        bool
	}{
		{"", "1.0.0", true},
		{"", "nightly", true},
		{">= 1.2", "1.2.0", true},
		{">= 1.2", "1.1.9", false},
		{">= 1.2", "v1.3", true},
		{">= 1.2 < 2", "2.0.0", false},
		{"^1.2 || ^3", "3.1.0", true},
		{">= 1.2", "nightly", false},
		{"= nightly", "nightly", true},
		{"= nightly", "weekly", false},
		{"= 1.2.0", "1.2.0", true},
		{"= 1.2.0", "1.2.1", false},
		{">= 1.2", "2.0.0-rc.1", false},
		{">= 1.2-0", "2.0.0-rc.1", true},
		{"> 2 < 1", "1.5.0", false},
	} {
		if got := (req{Name: "a", Range: c.of}).Allows(c.version); got != c.want {
			t.Errorf("%q allows %s: %v", c.of, c.version, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"name >= 1.2, other", "@acme/x ^1 || ~2", "a = nightly, < 3", "\x1b[0m, ｆ/ｆ"} {
		f.Add(text, "1.2.3")
	}
	f.Fuzz(func(t *testing.T, text, version string) {
		all, problems := requires.Parse(text)
		if len(all) > requires.MaxCount || len(problems) > requires.MaxCount+1 {
			t.Fatalf("%d requirements, %d problems", len(all), len(problems))
		}
		for _, r := range all {
			_ = r.Allows(version)
			if r.Name == "" || strings.ContainsAny(r.Name, "/\\,@ \n\x1b") || !utf8.ValidString(r.String()) {
				t.Fatalf("%q gives the name %q", text, r.Name)
			}
			again, problems := requires.Parse(r.String())
			if len(problems) > 0 || len(again) != 1 || again[0] != r {
				t.Fatalf("%q becomes %q, which is %v, %q", text, r, again, problems)
			}
		}
	})
}
