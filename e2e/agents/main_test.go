// Package agents_test runs the real Claude Code, Codex, Copilot CLI, Gemini CLI and
// OpenCode, as npm has them, against the real binary: the agents talk to scripted models on loopback, send
// their telemetry to the service, and the service must count what they did. It
// needs the agents, which `make e2e-agents` installs, and is skipped without.
package agents_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/relay"
)

var capture = flag.Bool("capture", false, "have the agents report in JSON, and write their reports and transcripts "+
	"anew into testdata/agents of the packages that read them")

var (
	binary   string // the service, built once for all tests
	claude   string // the programs of the agents
	codex    string
	copilot  string
	gemini   string // a script of node
	openCode string
	node     string
	ripgrep  string // the folder of rg, which OpenCode looks for in the PATH
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == relay.Command { // as the service's own binary
		os.Exit(relay.Main(os.Args[2:]))
	}
	flag.Parse()
	os.Exit(runWithPrograms(m))
}

func runWithPrograms(m *testing.M) int {
	// scripts/e2e-agents sets it to the node_modules that npm filled.
	packages := os.Getenv("WHETSTONE_AGENTS")
	if packages == "" {
		return m.Run() // every test is skipped
	}
	dir, err := os.MkdirTemp("", "whetstone-agents")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary, err = servertest.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	platform := runtime.GOOS + "-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	for program, pattern := range map[*string]string{
		&claude:   "@anthropic-ai/claude-code-" + platform + "/claude",
		&codex:    "@openai/codex-" + platform + "/vendor/*/bin/codex",
		&copilot:  "@github/copilot-" + platform + "/copilot",
		&gemini:   "@google/gemini-cli/bundle/gemini.js",
		&openCode: "opencode-" + platform + "/bin/opencode",
		&node:     "node-" + platform + "/bin/node",
		&ripgrep:  "@openai/codex-" + platform + "/vendor/*/codex-path",
	} {
		found, err := filepath.Glob(filepath.Join(packages, pattern))
		if err != nil || len(found) != 1 {
			fmt.Fprintf(os.Stderr, "%s in %s: found %q (%v), want one program\n", pattern, packages, found, err)
			return 1
		}
		*program = found[0]
	}
	return m.Run()
}

func requireAgents(t *testing.T) {
	t.Helper()
	if binary == "" {
		t.Skip("the agents are not installed; `make e2e-agents` does that and runs this")
	}
}
