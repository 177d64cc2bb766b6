package rewrite_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/rewrite"
)

func TestDescription(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Reads files of many kinds. ", 20)
	for name, c := range map[string]struct{ before, description, want string }{
		"plain": {
			"---\nname: pdf\ndescription: Old.\nlicense: MIT\n---\n# pdf\n", "New words.",
			"---\nname: pdf\ndescription: New words.\nlicense: MIT\n---\n# pdf\n",
		},
		"quotes where they are needed": {
			"---\nname: pdf\ndescription: Old.\n---\nx", `Use when: "always" # really`,
			"---\nname: pdf\ndescription: 'Use when: \"always\" # really'\n---\nx",
		},
		"folded, with a comment after it": {
			"---\ndescription: >-\n  Old\n  words.\n# keep\nname: pdf # too\n---\n\nbody", "New.",
			"---\ndescription: >-\n  New.\n# keep\nname: pdf # too\n---\n\nbody",
		},
		"the last field": {
			"---\nname: pdf\nmetadata:\n  a: b\ndescription:\n  Old words\n  on two lines.\n---\nbody\n---\nmore", "New.",
			"---\nname: pdf\nmetadata:\n  a: b\ndescription:\n  New.\n---\nbody\n---\nmore",
		},
		"none yet": {"---\nname: pdf\n---\nx", "New.", "---\ndescription: New.\nname: pdf\n---\nx"},
		"other line ends": {
			"---\r\nname: pdf\r\ndescription: Old.\r\n---\r\nx\r\n", "New.",
			"---\r\nname: pdf\r\ndescription: New.\r\n---\r\nx\r\n",
		},
		"long": {
			"---\nname: pdf\ndescription: Old.\n---\nx", long, "---\nname: pdf\ndescription: " + strings.TrimSpace(long) + "\n---\nx",
		},
	} {
		got, err := rewrite.Description(c.before, c.description)
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "no frontmatter", "---\nname: pdf\n"} {
		if got, err := rewrite.Description(bad, "New."); err == nil {
			t.Errorf("%q became %q", bad, got)
		}
	}
}

func TestBody(t *testing.T) {
	t.Parallel()
	const head = "---\nname: pdf\ndescription: Reads.\n---\n"
	for before, want := range map[string]string{
		head + "old": head + "new\ntext", head: head + "new\ntext\n",
		strings.ReplaceAll(head, "\n", "\r\n") + "old\r\n": strings.ReplaceAll(head+"new\ntext\n", "\n", "\r\n"),
	} {
		got, err := rewrite.Body(before, "new\ntext\n")
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", before, got, err, want)
		}
	}
}

func FuzzRewrite(f *testing.F) {
	f.Add("---\nname: pdf\ndescription: Old.\n---\nbody", "New: words", "other\n---\nbody")
	f.Add("---\ndescription: |\n  a\n  b\n\nname: x\n---\n", "two\nlines", "")
	f.Fuzz(func(t *testing.T, skillMD, description, body string) {
		before, err := skillpkg.ParseSkill([]byte(skillMD))
		if err != nil {
			return
		}
		if changed, err := rewrite.Description(skillMD, description); err == nil {
			after, err := skillpkg.ParseSkill([]byte(changed))
			if err != nil || after.Description != strings.TrimSpace(description) || after.Body != before.Body || after.Name != before.Name {
				t.Errorf("%q with %q became %q", skillMD, description, changed)
			}
		}
		if changed, err := rewrite.Body(skillMD, body); err == nil {
			after, err := skillpkg.ParseSkill([]byte(changed))
			if err != nil || after.Description != before.Description || after.Name != before.Name {
				t.Errorf("%q with body %q became %q", skillMD, body, changed)
			}
		}
	})
}
