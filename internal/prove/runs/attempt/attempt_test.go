package attempt

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThen adds up the steps of a task. Whether the skill was activated is known if
// it was in one step, or is known of all.
func TestThen(t *testing.T) {
	yes, no := new(true), new(false)
	one := Evidence{Name: "codex", Activated: no, Turns: 2, ToolCalls: 3, Tools: []string{"a", "b"}, Calls: []Call{{Tool: "a"}}}
	two := Evidence{Name: "codex", Activated: yes, Turns: 1, ToolCalls: 1, Tools: []string{"b", "c"}, Calls: []Call{{Tool: "c"}}, Ended: "refused"}
	want := Evidence{
		Name: "codex", Activated: yes, Turns: 3, ToolCalls: 4, Tools: []string{"a", "b", "c"},
		Calls: []Call{{Tool: "a"}, {Tool: "c"}}, Ended: "refused",
	}
	if diff := cmp.Diff(want, one.Then(two)); diff != "" {
		t.Errorf("two steps (-want +got):\n%s", diff)
	}
	for _, c := range []struct{ before, next, want *bool }{
		{yes, no, yes}, {no, yes, yes}, {no, no, no}, {nil, yes, yes}, {yes, nil, yes}, {nil, no, nil}, {no, nil, nil}, {nil, nil, nil},
	} {
		got := Evidence{Activated: c.before}.Then(Evidence{Activated: c.next}).Activated
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("activated (-want +got):\n%s", diff)
		}
	}
}

func TestSkillName(t *testing.T) {
	for _, c := range []struct{ text, name, want string }{
		{"---\nname: pdf-tables\ndescription: x\n---\n", "other", "pdf-tables"},
		{"---\r\ndescription: x\r\nname: \"pdf\"\r\n---\r\n", "other", "pdf"},
		{"no front matter\nname: pdf\n", "My Skill", "My-Skill"},
		{"---\nname: ../../etc\n---\n", "../../etc", "etc"},
		{"", "..", "skill"},
	} {
		if got := SkillName(c.text, c.name); got != c.want {
			t.Errorf("%q, %q: got %q, want %q", c.text, c.name, got, c.want)
		}
	}
}

// TestTraces finds what would tell an agent of a skill that it must not have.
func TestTraces(t *testing.T) {
	for text, want := range map[string]bool{
		"/pdf read it": true, "use $pdf.": true, "read the pdf": false, "open /pdf/a.txt": false, "$pdf-tables": false, "a/pdf": false,
	} {
		if got := isCalled(text, "pdf"); got != want {
			t.Errorf("%q calls the skill: %v, want %v", text, got, want)
		}
	}
	for path, c := range map[string]struct{ content, want string }{
		"app/AGENTS.md":                  {"Use the pdf skill.", "the file app/AGENTS.md"},
		"CLAUDE.md":                      {"Use pdf-tables.", ""},
		".claude/skills/pdf/SKILL.md":    {"x", "the file .claude/skills/pdf/SKILL.md"},
		".claude/skills/others/SKILL.md": {"pdf", ""},
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := findTrace(dir, "pdf"); got != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", path, got, err, c.want)
		}
		if got, err := (&Maker{}).findTraceInImage(dir, "pdf"); got != c.want || err != nil {
			t.Errorf("%s in an image: got %q, %v, want %q", path, got, err, c.want)
		}
	}
}
