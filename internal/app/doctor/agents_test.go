package doctor

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/agents"
)

// TestAgentsText: what only lacks a model is not said to be missing.
func TestAgentsText(t *testing.T) {
	got := agentsText([]agents.Agent{
		{Name: "claude-code", Version: new("2.1.327"), Available: true},
		{Name: "codex", Version: new("0.169.0"), Reason: new(agents.NoModel)},
		{Name: "gemini", Reason: new("there is no program gemini on this machine")},
	})
	want := "claude-code 2.1.327 can run. Installed, but " + agents.NoModel + ": codex 0.169.0. " +
		"Not installed: gemini (there is no program gemini on this machine)"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
