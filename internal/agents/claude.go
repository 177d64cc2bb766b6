package agents

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/gateway"
)

// claudeCode is the adapter of Claude Code.
type claudeCode struct{}

func (claudeCode) program() string     { return "claude" }
func (claudeCode) apis() []gateway.API { return []gateway.API{gateway.Anthropic} }
func (claudeCode) skillsDir() string   { return "~/.claude/skills" }

func (claudeCode) start(t task) invocation {
	args := []string{
		"-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "--model", t.model,
	}
	if t.maxTurns > 0 {
		args = append(args, "--max-turns", fmt.Sprint(t.maxTurns))
	}
	return invocation{args: args, stdin: t.instruction, limitsTurns: true, env: map[string]string{
		"ANTHROPIC_BASE_URL": t.url, "ANTHROPIC_API_KEY": placeholderKey,
		"ANTHROPIC_DEFAULT_HAIKU_MODEL": t.model, "ANTHROPIC_SMALL_FAST_MODEL": t.model,
		"IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1",
		"CLAUDE_CODE_MAX_RETRIES": "2", // else it retries for minutes
	}}
}

// claudeLine is a line of --output-format stream-json.
type claudeLine struct {
	Type      string  `json:"type"`
	Subtype   string  `json:"subtype"`
	SessionID string  `json:"session_id"`
	ParentID  *string `json:"parent_tool_use_id"` // of a subagent's line
	Message   struct {
		ID      string          `json:"id"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`

	// Of the last line.
	IsError        bool     `json:"is_error"`
	Result         string   `json:"result"`
	Errors         []string `json:"errors"`
	StopReason     string   `json:"stop_reason"`
	APIErrorStatus *int     `json:"api_error_status"`
	TerminalReason string   `json:"terminal_reason"`
}

type claudeBlock struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	ID    string `json:"id"`
	Name  string `json:"name"`
	Input struct {
		Skill    string `json:"skill"`
		FilePath string `json:"file_path"`
		Command  string `json:"command"`
	} `json:"input"`
	ToolUseID string `json:"tool_use_id"`
	IsError   bool   `json:"is_error"`
}

func (claudeCode) read(lines [][]byte) *transcript {
	var t transcript
	known, ended := false, false
	messages, byCall := map[string]bool{}, map[string]int{}
	for _, raw := range lines {
		var line claudeLine
		if !decode(raw, &line) {
			continue
		}
		switch line.Type {
		case "system":
			known = known || line.Subtype == "init"
		case "assistant":
			if line.ParentID == nil && line.Message.Model != "<synthetic>" {
				messages[line.Message.ID] = true
			}
		case "result":
			ended = true
			t.endClaude(line)
		}
		if line.SessionID != "" {
			t.sessionID = line.SessionID
		}
		var blocks []claudeBlock
		if json.Unmarshal(line.Message.Content, &blocks) != nil {
			continue // a text, or none
		}
		for _, b := range blocks {
			switch {
			case b.Type == "tool_use":
				byCall[b.ID] = t.add(b.call(line.Message.Content))
			case b.Type == "tool_result" && b.IsError:
				if at, ok := byCall[b.ToolUseID]; ok && at >= 0 {
					t.calls[at].Failed = true
				}
			}
		}
	}
	t.turns = len(messages)
	if !known && !ended {
		return nil
	}
	if !ended {
		t.fail(Crashed, "Claude Code ended without a result")
	}
	return &t
}

func (b claudeBlock) call(content json.RawMessage) Call {
	c := Call{Tool: b.Name, Detail: string(content)}
	switch b.Name {
	case "Skill":
		// A skill of a plugin is plugin:skill.
		c.Skill, c.Loads, c.Detail = b.Input.Skill[strings.LastIndexByte(b.Input.Skill, ':')+1:], true, b.Input.Skill
	case "Read":
		c.Skill, c.Detail = skillIn(b.Input.FilePath), b.Input.FilePath
	case "Bash":
		c.Skill, c.Detail = skillIn(b.Input.Command), b.Input.Command
	}
	return c
}

// endClaude reads the last line, the result.
func (t *transcript) endClaude(line claudeLine) {
	t.say(line.Result)
	message := line.Result
	if message == "" {
		message = strings.Join(line.Errors, "; ")
	}
	switch {
	case line.Subtype == "error_max_turns":
		t.failure = errOutOfTurns()
	case line.APIErrorStatus != nil || line.TerminalReason == "api_error":
		t.fail(ModelError, message)
	case line.StopReason == "refusal":
		t.fail(Refused, message)
	case line.IsError:
		t.fail(Crashed, message)
	}
}
