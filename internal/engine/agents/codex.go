package agents

import (
	"bytes"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
)

// codex is the adapter of the Codex CLI. It has no tool that loads a skill: the model reads the
// SKILL.md with the shell.
type codex struct{}

func (codex) program() string     { return "codex" }
func (codex) apis() []gateway.API { return []gateway.API{gateway.Responses} }
func (codex) skillsDir() string   { return "~/.codex/skills" }

func (codex) start(t task) invocation {
	// trust_level and danger-full-access switch off Codex's own sandbox and its questions: the
	// sandbox around it is the boundary.
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
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"item"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

// read returns nil without a thread.started line. An error item in between is not a failure: only
// turn.failed ends the turn.
func (codex) read(output []byte) *transcript {
	var t transcript
	known, ended := false, false
	for raw := range bytes.Lines(output) {
		var line codexLine
		if !decode(raw, &line) {
			continue
		}
		switch line.Type {
		case "thread.started":
			known, t.sessionID = true, line.ThreadID
		case "item.completed":
			if line.Item.Type == "agent_message" {
				t.say(line.Item.Text)
			}
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

// call tells what a call means. Codex activates a skill by reading its SKILL.md.
func (codex) call(tool, input string) Call {
	c := callOf(tool, "", input)
	c.Loads = c.Skill != ""
	return c
}

func (codex) tellsSkills() bool { return true }
