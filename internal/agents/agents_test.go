package agents_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/agents"
	"github.com/whetstone-dev/whetstone/internal/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/sandbox/relay"
)

// TestMain lets this program be the relay, as the service's own binary is, and the
// stand-in of an agent.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == relay.Command:
		os.Exit(relay.Main(os.Args[2:]))
	case agentstest.IsStandIn(os.Args[0]):
		os.Exit(agentstest.StandIn(os.Args[0], os.Args[1:]))
	}
	os.Exit(m.Run())
}

// standIns returns a folder with a stand-in for every agent.
func standIns(t *testing.T) string {
	t.Helper()
	dir := agentstest.Folder(t)
	for i, name := range []string{"claude", "codex", "copilot", "opencode", "gemini"} {
		to := filepath.Join(dir, name)
		if i > 0 {
			if err := os.Link(filepath.Join(dir, "claude"), to); err != nil {
				t.Fatal(err)
			}
			continue
		}
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Skip(err) // only Linux has a sandbox
		}
		defer self.Close()
		f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, self); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestConformance(t *testing.T) {
	dir := standIns(t)
	for _, name := range []string{agents.ClaudeCode, agents.Codex, agents.Copilot, agents.OpenCode, agents.Gemini} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agentstest.Run(t, name, dir)
		})
	}
}
