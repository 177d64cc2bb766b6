package agents

import (
	"bytes"

	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
)

// copilot is the adapter of the GitHub Copilot CLI. COPILOT_OFFLINE keeps it from signing in to
// GitHub, so that it only asks the configured provider.
type copilot struct{}

func (copilot) program() string     { return "copilot" }
func (copilot) apis() []gateway.API { return []gateway.API{gateway.Anthropic, gateway.OpenAI} }
func (copilot) skillsDir() string   { return "~/.copilot/skills" }

func (copilot) start(t task) invocation {
	provider, url := "anthropic", t.url
	if t.api == gateway.OpenAI {
		provider, url = "openai", t.url+"/v1"
	}
	return invocation{
		args: []string{
			"--prompt=" + t.instruction, "--allow-all-tools", "--allow-all-paths", "--disable-builtin-mcps",
			"--output-format", "json",
		},
		env: map[string]string{
			"COPILOT_PROVIDER_BASE_URL": url, "COPILOT_PROVIDER_TYPE": provider, "COPILOT_PROVIDER_API_KEY": placeholderKey,
			"COPILOT_MODEL": t.model, "COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false",
		},
	}
}

// copilotLine is a line of --output-format json.
type copilotLine struct {
	Type      string `json:"type"`
	SessionID string `json:"sessionId"` // of the last line
	ExitCode  int    `json:"exitCode"`
	Data      struct {
		Content string `json:"content"`
		Message string `json:"message"` // of an error
	} `json:"data"`
}

// read keeps the first failure that is more than an exit code: the result line of a failed session
// only says that the code isn't 0.
func (copilot) read(output []byte) *transcript {
	var t transcript
	known, ended := false, false
	for raw := range bytes.Lines(output) {
		var line copilotLine
		if !decode(raw, &line) {
			continue
		}
		switch line.Type {
		case "session.skills_loaded", "user.message":
			known = true
		case "assistant.message":
			t.say(line.Data.Content)
		case "session.error", "model.call_failure":
			t.fail(ModelError, line.Data.Message)
		case "result":
			ended, t.sessionID = true, line.SessionID
			if line.ExitCode != 0 && t.failure == nil {
				t.fail(Crashed, "Copilot failed")
			}
		}
	}
	if !known && !ended {
		return nil
	}
	if !ended && t.failure == nil {
		t.fail(Crashed, "Copilot ended without a result")
	}
	return &t
}

func (copilot) call(tool, input string) Call { return callOf(tool, "skill", input) }

func (copilot) tellsSkills() bool { return true }
