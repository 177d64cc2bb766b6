package agents_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
)

// TestAdapters runs the conformance suite of the adapters with the real agents, in
// the sandbox.
func TestAdapters(t *testing.T) {
	requireAgents(t)
	dir := agentstest.Folder(t)
	for name, program := range map[string]string{"claude": claude, "codex": codex} {
		linkOrCopy(t, program, filepath.Join(dir, name))
	}
	for _, name := range []string{agents.ClaudeCode, agents.Codex} {
		t.Run(name, func(t *testing.T) { agentstest.Run(t, name, dir) })
	}
}

// linkOrCopy brings a file out of the user's cache, which the sandbox's user may not
// be able to reach.
func linkOrCopy(t *testing.T, from, to string) {
	t.Helper()
	if os.Link(from, to) == nil {
		return
	}
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
