package agents

import (
	"bytes"

	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
)

// gemini is the adapter of the Gemini CLI. GEMINI_CLI_NO_RELAUNCH keeps it from starting itself
// again with a larger heap.
type gemini struct{}

func (gemini) program() string     { return "gemini" }
func (gemini) apis() []gateway.API { return []gateway.API{gateway.Google} }
func (gemini) skillsDir() string   { return "~/.gemini/skills" }

func (gemini) start(t task) invocation {
	return invocation{
		args: []string{
			"--prompt=" + t.instruction, "--yolo", "--skip-trust", "--output-format", "stream-json",
			"--model", t.model,
		},
		env: map[string]string{
			"GEMINI_API_KEY": placeholderKey, "GOOGLE_GEMINI_BASE_URL": t.url, "GEMINI_CLI_NO_RELAUNCH": "true",
			"DO_NOT_TRACK": "1",
		},
		files: map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}},` +
			`"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},` +
			`"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false}}`},
	}
}

// geminiLine is a line of --output-format stream-json.
type geminiLine struct {
	Type      string `json:"type"`
	SessionID string `json:"session_id"`
	Role      string `json:"role"`
	Content   string `json:"content"`
	Status    string `json:"status"`
	Error     struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

func (gemini) read(output []byte) *transcript {
	var t transcript
	known, ended := false, false
	message := ""
	for raw := range bytes.Lines(output) {
		var line geminiLine
		if !decode(raw, &line) {
			continue
		}
		switch line.Type {
		case "init":
			known, t.sessionID = true, line.SessionID
		case "message":
			if line.Role == "assistant" {
				message += line.Content // it comes in parts
			}
		// What was said before a call is not the final message.
		case "tool_use":
			message = ""
		case "result":
			ended = true
			if line.Status == "error" {
				switch line.Error.Type {
				case "FatalTurnLimitedError", "MaxSessionTurnsError":
					t.fail(OutOfTurns, line.Error.Message)
				default:
					t.fail(ModelError, line.Error.Message)
				}
			}
		}
	}
	if !known {
		return nil
	}
	t.say(message)
	if !ended {
		t.fail(Crashed, "Gemini CLI ended without a result")
	}
	return &t
}

func (gemini) call(tool, input string) Call { return callOf(tool, "activate_skill", input) }

func (gemini) tellsSkills() bool { return true }
