package agents_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// whetstone runs the command line as the user of the agent does.
func (a agent) whetstone(t *testing.T, args ...string) {
	t.Helper()
	a.run(t, nil, binary, args...)
}

func (a agent) read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(a.home, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// eventuallySkills waits until the hook has sent the session in the background.
func (o organisation) eventuallySkills(t *testing.T, want map[string]figures) {
	t.Helper()
	apptest.Eventually(t, "the hook to send the session", func() bool {
		return len(o.api(t).Get("/v1/skills").List("skills")) == len(want) &&
			cmp.Equal(want["pdf-tables"], o.figures(t, "pdf-tables"))
	})
	o.wantSkills(t, want)
}

// TestClaudeCodeHook: with the hook, sessions are reported by themselves, and once
// though OTLP reports them, too. Removed, it leaves no trace and reports nothing.
func TestClaudeCodeHook(t *testing.T) {
	requireAgents(t)
	s := startService(t)
	live := s.newOrganisation(t)
	c := newClaudeCode(t, live)
	c.write(t, "project/.claude/skills/pdf-tables/SKILL.md", skillFile("pdf-tables"))
	const settings = "{\n\t\"env\": {\"A\": \"b\"},\n\t\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"touch stopped\"}]}]}\n}"
	c.write(t, ".claude/settings.json", settings)
	c.whetstone(t, "hook", "install", "claude-code", "--server", s.URL, "--api-key", live.key)

	c.model.Script(calls(useOf("pdf-tables")), answer(), answer())
	c.prompt(t, "Use pdf-tables on the invoice. "+promptWord)
	// OTLP alone does not know that the prompt names the skill.
	live.eventuallySkills(t, map[string]figures{"pdf-tables": {1, 1, 1, 1.0, 0.85}})
	if _, err := os.Stat(filepath.Join(c.project, "stopped")); err != nil {
		t.Errorf("the other hook: %v", err)
	}

	c.whetstone(t, "hook", "uninstall", "claude-code")
	if got := c.read(t, ".claude/settings.json"); got != settings {
		t.Errorf("the settings are now %q, want %q", got, settings)
	}
	c.prompt(t, "And the next? "+promptWord, "--continue")
	if left, _ := filepath.Glob(filepath.Join(c.home, ".cache/whetstone/hook/*.json")); len(left) > 0 {
		t.Errorf("%q wait to be sent by a hook that was removed", left)
	}
	c.model.WantAllSaid(1)
}

// TestClaudeCodeHookOffline: a session that ends while the server is away does not
// keep the agent from working, and is sent with the next one.
func TestClaudeCodeHookOffline(t *testing.T) {
	requireAgents(t)
	s := startService(t)
	live := s.newOrganisation(t)
	c := newClaudeCode(t, live)
	c.write(t, "project/.claude/skills/pdf-tables/SKILL.md", skillFile("pdf-tables"))
	c.whetstone(t, "hook", "install", "claude-code", "--server", s.URL, "--api-key", live.key)
	login := c.read(t, ".config/whetstone/credentials.json")
	if err := os.Remove(filepath.Join(c.home, ".config/whetstone/credentials.json")); err != nil {
		t.Fatal(err)
	}
	c.model.Script(calls(useOf("pdf-tables")), answer())
	c.prompt(t, "Use pdf-tables on the invoice. "+promptWord)
	apptest.Eventually(t, "the hook to fail", func() bool {
		_, err := os.Stat(filepath.Join(c.home, ".cache/whetstone/hook/hook.log"))
		return err == nil
	})
	c.write(t, ".config/whetstone/credentials.json", login)
	c.prompt(t, "Use pdf-tables on the next one. "+promptWord)
	live.eventuallySkills(t, map[string]figures{"pdf-tables": {2, 2, 2, 1.0, 0.85}})
}

// TestCodexHook: Codex reports its sessions by the hook, once though OTLP reports
// them, too.
func TestCodexHook(t *testing.T) {
	requireAgents(t)
	s := startService(t)
	readSkill := calls(shell("cat .agents/skills/pdf-tables/SKILL.md"))
	for _, test := range []struct {
		name string
		otlp bool
	}{{"alone", false}, {"beside OTLP", true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			live := s.newOrganisation(t)
			c := newCodex(t, live)
			if !test.otlp {
				settings, _, _ := strings.Cut(c.read(t, ".codex/config.toml"), "[otel]")
				c.write(t, ".codex/config.toml", settings)
			}
			settings := c.read(t, ".codex/config.toml")
			c.whetstone(t, "hook", "install", "codex", "--server", s.URL, "--api-key", live.key)
			c.model.Script(readSkill, answer())
			for range 2 {
				c.prompt(t, "Use $pdf-tables on the invoice. "+promptWord)
			}
			want := map[string]figures{"pdf-tables": {2, 4, 4, 1.0, 0.8}}
			live.eventuallySkills(t, want)
			apptest.Eventually(t, "everything to be sent", func() bool {
				left, _ := filepath.Glob(filepath.Join(c.home, ".cache/whetstone/hook/*.json"))
				sending, _ := filepath.Glob(filepath.Join(c.home, ".cache/whetstone/hook/*.sending"))
				return len(left)+len(sending) == 0
			})
			live.wantSkills(t, want)
			c.whetstone(t, "hook", "uninstall", "codex")
			if got := c.read(t, ".codex/config.toml"); got != settings {
				t.Errorf("the settings are now %q, want %q", got, settings)
			}
		})
	}
}
