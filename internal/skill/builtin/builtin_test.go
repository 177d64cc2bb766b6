package builtin_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/skill/builtin"
)

func TestSkill(t *testing.T) {
	for _, test := range []struct {
		agent builtin.Agent
		name  string
		want  bool
	}{
		{builtin.ClaudeCode, "loop", true},
		{builtin.ClaudeCode, "pdf-tables", false},
		{builtin.ClaudeCode, "acme:loop", false},
		{builtin.Codex, "skill-creator", true},
		{builtin.Codex, "loop", false},
		{builtin.Copilot, "github-pr-media", true},
		{builtin.Copilot, "skill-creator", false},
		{builtin.Gemini, "skill-creator", true},
		{"another", "loop", false},
	} {
		if got := builtin.Skill(test.agent, test.name); got != test.want {
			t.Errorf("Skill(%s, %s) = %t", test.agent, test.name, got)
		}
	}
}

// TestListings: what the real Claude Code lists to the model is either one of the
// skills that the test installed, or built in.
func TestListings(t *testing.T) {
	files, err := filepath.Glob("../../local/transcripts/testdata/agents/*/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	listings := 0
	for _, name := range files {
		for _, listed := range listingsOf(t, name) {
			listings++
			for _, skill := range listed {
				installed := slices.Contains([]string{"pdf-tables", "alpha-notes", "acme:deploy"}, skill)
				if builtin.Skill(builtin.ClaudeCode, skill) == installed {
					t.Errorf("%s lists %q: built in %t, installed %t", name, skill, !installed, installed)
				}
			}
		}
	}
	if listings == 0 {
		t.Error("no transcript has a skill_listing")
	}
}

func listingsOf(t *testing.T, name string) (all [][]string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct {
			Attachment struct {
				Type  string   `json:"type"`
				Names []string `json:"names"`
			} `json:"attachment"`
		}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Attachment.Type == "skill_listing" {
			all = append(all, e.Attachment.Names)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
