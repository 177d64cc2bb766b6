package agents

import (
	"bytes"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
)

// openCode is the adapter of OpenCode.
type openCode struct{}

func (openCode) program() string     { return "opencode" }
func (openCode) apis() []gateway.API { return []gateway.API{gateway.Anthropic, gateway.OpenAI} }
func (openCode) skillsDir() string   { return "~/.config/opencode/skills" }

func (openCode) start(t task) invocation {
	npm := "@ai-sdk/anthropic"
	if t.api == gateway.OpenAI {
		npm = "@ai-sdk/openai-compatible"
	}
	type object = map[string]any
	config, _ := json.Marshal(object{ // maps and texts always marshal
		"autoupdate": false, "share": "disabled", "model": "relay/" + t.model, "small_model": "relay/" + t.model,
		"provider": object{"relay": object{
			"npm": npm, "name": "relay", "options": object{"baseURL": t.url + "/v1", "apiKey": placeholderKey},
			"models": object{t.model: object{"name": t.model}},
		}},
	})
	return invocation{
		// Without a title it asks the model for one, which would be an answer more.
		args:  []string{"run", "--format", "json", "--auto", "--title", "task", "--", t.instruction},
		env:   map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "DO_NOT_TRACK": "1"},
		files: map[string]string{".config/opencode/opencode.json": string(config)},
	}
}

// openCodeLine is a line of run --format json.
type openCodeLine struct {
	Type      string `json:"type"`
	SessionID string `json:"sessionID"`
	Part      struct {
		Text   string `json:"text"`
		Reason string `json:"reason"`
	} `json:"part"`
	Error struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"error"`
}

func (openCode) read(output []byte) *transcript {
	var t transcript
	known, ended := false, false
	for raw := range bytes.Lines(output) {
		var line openCodeLine
		if !decode(raw, &line) {
			continue
		}
		if line.SessionID != "" {
			known, t.sessionID = true, line.SessionID
		}
		switch line.Type {
		case "text":
			t.say(line.Part.Text)
		// A step that ends in tool calls is followed by another one; any other reason ends the run.
		case "step_finish":
			ended = line.Part.Reason != "tool-calls"
		case "error":
			ended = true
			t.fail(ModelError, line.Error.Name+": "+line.Error.Data.Message)
		}
	}
	if !known {
		return nil
	}
	if !ended {
		t.fail(Crashed, "OpenCode ended without a result")
	}
	return &t
}

func (openCode) call(tool, input string) Call { return callOf(tool, "skill", input) }

func (openCode) tellsSkills() bool { return true }
