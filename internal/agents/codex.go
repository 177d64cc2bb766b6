package agents

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/gateway"
)

// codex is the adapter of the Codex CLI.
type codex struct{}

func (codex) program() string     { return "codex" }
func (codex) apis() []gateway.API { return []gateway.API{gateway.Responses} }
func (codex) skillsDir() string   { return "~/.codex/skills" }

func (codex) start(t task) invocation {
	config := fmt.Sprintf(`model = %[1]q
model_provider = "relay"
check_for_update_on_startup = false
analytics.enabled = false
projects.%[2]q.trust_level = "trusted"

[model_providers.relay]
name = "relay"
base_url = %[3]q
env_key = "MODEL_KEY"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2
`, t.model, t.dir, t.url+"/v1")
	return invocation{
		args:  []string{"exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", "-"},
		stdin: t.instruction,
		env:   map[string]string{"MODEL_KEY": placeholderKey, "CODEX_HOME": t.home + "/.codex", "DO_NOT_TRACK": "1"},
		files: map[string]string{".codex/config.toml": config},
	}
}

// codexLine is a line of exec --json.
type codexLine struct {
	Type     string `json:"type"`
	ThreadID string `json:"thread_id"`
	Item     struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Command  string `json:"command"`
		ExitCode *int   `json:"exit_code"`
		Status   string `json:"status"`
		Tool     string `json:"tool"`
		Server   string `json:"server"`
	} `json:"item"`
	Message string `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (codex) read(lines [][]byte) *transcript {
	var t transcript
	known, ended := false, false
	for _, raw := range lines {
		var line codexLine
		if !decode(raw, &line) {
			continue
		}
		switch line.Type {
		case "thread.started":
			known, t.sessionID = true, line.ThreadID
		case "item.completed":
			t.addCodexItem(line)
		case "turn.completed":
			ended = true
		case "turn.failed":
			ended = true
			t.fail(ModelError, line.Error.Message)
		}
	}
	if !known {
		return nil
	}
	if !ended {
		t.fail(Crashed, "Codex ended without a result")
	}
	return &t
}

// addCodexItem reads an item. Codex activates a skill by reading its SKILL.md.
func (t *transcript) addCodexItem(line codexLine) {
	item := line.Item
	failed := item.Status == "failed" || item.ExitCode != nil && *item.ExitCode != 0
	switch item.Type {
	case "agent_message":
		t.say(item.Text)
	case "command_execution":
		skill := skillIn(item.Command)
		t.add(Call{Tool: "exec_command", Skill: skill, Loads: skill != "", Failed: failed, Detail: unwrapShell(item.Command)})
	case "file_change":
		t.add(Call{Tool: "apply_patch", Failed: failed})
	case "mcp_tool_call":
		t.add(Call{Tool: item.Server + "." + item.Tool, Failed: failed})
	case "web_search":
		t.add(Call{Tool: "web_search"})
	}
}

// unwrapShell returns the command in "/bin/bash -lc 'command'".
func unwrapShell(command string) string {
	_, inner, ok := strings.Cut(command, " -lc ")
	if !ok {
		return command
	}
	if unquoted, err := strconv.Unquote(inner); err == nil {
		return unquoted
	}
	return strings.Trim(inner, "'")
}
