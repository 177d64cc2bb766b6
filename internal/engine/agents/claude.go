package agents

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
)

// claudeCode is the adapter of Claude Code. It activates a skill by a call of its tool Skill, so a
// mere look at a SKILL.md does not count.
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
	// IS_SANDBOX allows --dangerously-skip-permissions as root. The two model names are those of
	// background requests (titles, summaries), which would otherwise go to models that the gateway
	// doesn't offer.
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
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	SessionID string `json:"session_id"`

	// Only the last line, of type "result", has the fields below.
	IsError        bool     `json:"is_error"`
	Result         string   `json:"result"`
	Errors         []string `json:"errors"`
	StopReason     string   `json:"stop_reason"`
	APIErrorStatus *int     `json:"api_error_status"`
	TerminalReason string   `json:"terminal_reason"`
}

// read returns nil unless there was an init or a result line: then the output is that of another
// program, e.g. of a wrapper that failed to start Claude Code.
func (claudeCode) read(output []byte) *transcript {
	var t transcript
	known, ended := false, false
	for raw := range bytes.Lines(output) {
		var line claudeLine
		if !decode(raw, &line) {
			continue
		}
		switch line.Type {
		case "system":
			known = known || line.Subtype == "init"
		case "result":
			ended = true
			t.endClaude(line)
		}
		if line.SessionID != "" {
			t.sessionID = line.SessionID
		}
	}
	if !known && !ended {
		return nil
	}
	if !ended {
		t.fail(Crashed, "Claude Code ended without a result")
	}
	return &t
}

func (claudeCode) call(tool, input string) Call {
	c := callOf(tool, "Skill", input)
	if c.Loads {
		c.Skill = c.Skill[strings.LastIndexByte(c.Skill, ':')+1:] // a skill of a plugin is plugin:skill
	}
	return c
}

func (claudeCode) tellsSkills() bool { return true }

// endClaude reads the result line. The order of the cases matters: an API error and the limit of
// turns also set is_error.
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
