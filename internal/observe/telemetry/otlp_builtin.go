package telemetry

import (
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/builtin"
)

// isBuiltIn reports whether a skill came with the agent: by what the event says of
// its source, else by its name.
func (e event) isBuiltIn(skill string) bool {
	if source := e.Text("skill.source", "skill.scope", "github.copilot.skill.source"); source != "" {
		return builtin.Source(source)
	}
	return builtin.Skill(e.agent(), skill)
}

// agent returns the agent that sends this kind of event, or "".
func (e event) agent() builtin.Agent {
	switch e.name {
	case "skill_activated", "tool_result", "tool_decision", "claude_code.tool":
		return builtin.ClaudeCode
	case skillInvocation, skillInjected:
		return builtin.Codex
	case "gemini_cli.tool_call":
		return builtin.Gemini
	}
	if strings.Contains(e.Text("service.name"), "copilot") || e.HasPrefix("github.copilot.") {
		return builtin.Copilot
	}
	return ""
}
