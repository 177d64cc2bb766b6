package agents_test

import (
	"os"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
)

func TestMain(m *testing.M) {
	agentstest.Main()
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	dir := agentstest.StandIns(t)
	for _, name := range []string{agents.ClaudeCode, agents.Codex, agents.Copilot, agents.OpenCode, agents.Gemini} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agentstest.Run(t, name, dir)
		})
	}
}
