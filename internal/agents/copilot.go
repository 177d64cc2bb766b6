package agents

import (
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/gateway"
)

// copilot is the adapter of the GitHub Copilot CLI.
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
			"--prompt=" + t.instruction, "--allow-all-tools", "--allow-all-paths", "--disable-builtin-mcps", "--output-format", "json",
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
		Content    string          `json:"content"`
		ToolCallID string          `json:"toolCallId"`
		ToolName   string          `json:"toolName"`
		Arguments  json.RawMessage `json:"arguments"`
		Success    *bool           `json:"success"`
		Message    string          `json:"message"` // of an error
		ErrorType  string          `json:"errorType"`
	} `json:"data"`
}

func (copilot) read(lines [][]byte) *transcript {
	var t transcript
	known, ended := false, false
	byCall := map[string]int{}
	for _, raw := range lines {
		var line copilotLine
		if !decode(raw, &line) {
			continue
		}
		switch line.Type {
		case "session.skills_loaded", "user.message":
			known = true
		case "assistant.message":
			t.turns++
			t.say(line.Data.Content)
		case "tool.execution_start":
			byCall[line.Data.ToolCallID] = t.add(callOf(line.Data.ToolName, "skill", line.Data.Arguments))
		case "tool.execution_complete":
			if at, ok := byCall[line.Data.ToolCallID]; ok && at >= 0 {
				t.calls[at].Failed = line.Data.Success != nil && !*line.Data.Success
			}
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

// callOf is a call of a tool whose input has a field "skill" or "name" if it is
// the one that loads skills, and a command or a path otherwise.
func callOf(tool, loads string, arguments json.RawMessage) Call {
	var in struct {
		Skill   string `json:"skill"`
		Name    string `json:"name"`
		Command string `json:"command"`
		Path    string `json:"path"`
		File    string `json:"filePath"`
	}
	_ = json.Unmarshal(arguments, &in) // other tools have other fields
	c := Call{Tool: tool, Detail: string(arguments)}
	if tool == loads {
		c.Skill, c.Loads = in.Skill+in.Name, true // one of them
		return c
	}
	for _, text := range []string{in.Command, in.Path, in.File} {
		if text != "" {
			c.Skill, c.Detail = skillIn(text), text
		}
	}
	return c
}
