package teams_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/publish/teams"
)

// TestMatch has the examples of GitHub's documentation, and their limits.
func TestMatch(t *testing.T) {
	t.Parallel()
	const skill = "skills/pdf/SKILL.md"
	for _, c := range []struct{ name, file, path, want string }{
		{"everything", "* @a", skill, "@a"},
		{"last wins", "* @a\n/skills/ @b\n*.go @c", skill, "@b"},
		{"no match", "*.go @a", skill, "-"},
		{"extension", "*.md @a", skill, "@a"},
		{"several owners", "* @a b@example.org @acme/docs", skill, "@a b@example.org @acme/docs"},
		{"an owner twice", "* @a @a", skill, "@a"},
		{"no owners", "* @a\n/skills/pdf", skill, ""},
		{"folder at the root", "/skills/ @a", skill, "@a"},
		{"folder at the root only", "/pdf/ @a", skill, "-"},
		{"folder anywhere", "pdf/ @a", skill, "@a"},
		{"a folder is no file", "SKILL.md/ @a", skill, "-"},
		{"name anywhere", "pdf @a", skill, "@a"},
		{"file anywhere", "SKILL.md @a", skill, "@a"},
		{"a slash in the middle anchors", "pdf/SKILL.md @a", skill, "-"},
		{"anchored without a leading slash", "skills/pdf @a", skill, "@a"},
		{"not the beginning of a name", "/skills/pd @a", skill, "-"},
		{"star is one level", "skills/* @a", skill, "-"},
		{"star is one level of files", "skills/pdf/* @a", skill, "@a"},
		{"star in the middle", "/skills/*/SKILL.md @a", skill, "@a"},
		{"star in a name", "/skills/p*f/ @a", skill, "@a"},
		{"question mark", "/skills/p?f/ @a", skill, "@a"},
		{"star does not cross folders", "/skills*SKILL.md @a", skill, "-"},
		{"stars below", "/skills/** @a", skill, "@a"},
		{"stars above", "**/pdf @a", skill, "@a"},
		{"stars between", "/skills/**/SKILL.md @a", skill, "@a"},
		{"stars for no folder", "/skills/**/pdf/ @a", skill, "@a"},
		{"root", "/SKILL.md @a", "SKILL.md", "@a"},
		{"case counts", "/Skills/ @a", skill, "-"},
		{"comment", "# * @a", skill, "-"},
		{"comment at the end", "* @a # @b", skill, "@a"},
		{"hash in a name", "/a#b/ @a", "a#b/SKILL.md", "@a"},
		{"escaped space", `/my\ skills/ @a`, "my skills/SKILL.md", "@a"},
		{"tabs and carriage returns", "*\t@a\r\n", skill, "@a"},
		{"byte order mark", "\uFEFF* @a", skill, "@a"},
		{"empty", "\n \n\n", skill, "-"},
		{"negation is left out", "* @a\n!/skills/ @b", skill, "@a"},
		{"range is left out", "* @a\n/[s]kills/ @b", skill, "@a"},
		{"escaped hash is left out", "* @a\n\\#x @b\n", skill, "@a"},
		{"owner without @ is left out", "* @a\n* bob", skill, "@a"},
		{"owner that is a path is left out", "* @a\n* @a/b/c", skill, "@a"},
		{"slash alone is left out", "* @a\n/ @b", skill, "@a"},
		{"empty segment is left out", "* @a\n/skills//pdf @b", skill, "@a"},
		{"dangling backslash is left out", "* @a\n/skills\\", skill, "@a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := "-"
			if r, ok := teams.MatchOwners(teams.ParseCodeowners(c.file), c.path); ok {
				got = strings.Join(r.Owners, " ")
			}
			if got != c.want {
				t.Errorf("owners of %s by %q: %q, want %q", c.path, c.file, got, c.want)
			}
		})
	}
}

func TestRule(t *testing.T) {
	t.Parallel()
	r, ok := teams.MatchOwners(teams.ParseCodeowners("# ours\n\n* @a\n/docs/ @b\n"), "x")
	if !ok || r.Line != 3 || r.Pattern != "*" {
		t.Errorf("rule %+v, %v", r, ok)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	if got := teams.ParseCodeowners("* @a\n" + strings.Repeat("#", teams.MaxCodeowners)); got != nil {
		t.Errorf("a file that is too large has %d rules", len(got))
	}
	if got := teams.ParseCodeowners("* @a\xff"); got != nil {
		t.Errorf("a file that is no text has %d rules", len(got))
	}
	if got := teams.ParseCodeowners("*" + strings.Repeat(" @a", 50) + "\n" + strings.Repeat("x", 2000) + " @b"); len(got) != 1 {
		t.Errorf("%d rules, want 1", len(got))
	}
	// The most expensive file: every line fails only at its end.
	hostile := strings.Repeat(strings.Repeat("**/*a/", 20)+"b @a\n", 2000)
	deep := strings.Repeat("aaaaaaaa/", 60) + "c"
	if r, ok := teams.MatchOwners(teams.ParseCodeowners(hostile), deep); ok {
		t.Errorf("rule %+v", r)
	}
}

func TestOwnerKinds(t *testing.T) {
	t.Parallel()
	type kinds struct{ Team, Address string }
	for owner, want := range map[string]kinds{
		"@acme/Docs":      {Team: "docs"},
		"@ada":            {},
		"Ada@Example.org": {Address: "ada@example.org"},
	} {
		var got kinds
		if team, ok := teams.OwnerTeam(owner); ok {
			got.Team = team
		}
		if email, ok := teams.OwnerAddress(owner); ok {
			got.Address = email
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", owner, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("* @a\n/skills/ @acme/docs\n", "skills/pdf/SKILL.md")
	f.Add(`a\ b/**/c?* x@y`, "a b/c")
	f.Fuzz(func(t *testing.T, file, path string) {
		rules := teams.ParseCodeowners(file)
		r, ok := teams.MatchOwners(rules, path)
		if ok && (r.Line < 1 || r.Pattern == "") {
			t.Errorf("rule %+v of %q", r, file)
		}
	})
}
