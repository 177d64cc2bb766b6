// Package builtin knows the skills that agents bring along. They are called like
// the skills of an organisation, but are none of them.
package builtin

import "slices"

// An Agent is a program that runs skills.
type Agent string

// The agents with skills of their own.
const (
	ClaudeCode Agent = "claude_code"
	Codex      Agent = "codex"
	Copilot    Agent = "copilot"
	Gemini     Agent = "gemini"
)

// Skill reports whether an agent has a skill of this name itself. People may have
// one of the same name: where a report says where the skill comes from, that
// decides (see Source).
func Skill(agent Agent, name string) bool { return slices.Contains(namesOf(agent), name) }

// Source reports whether a report says that the skill comes with the agent: by
// skill.source of Claude Code and Copilot, or by skill.scope of Codex.
func Source(word string) bool { return slices.Contains([]string{"builtin", "bundled", "system"}, word) }

// namesOf returns the skills of Claude Code 2.1.325, Codex 0.166.0, Copilot 1.0.102
// and Gemini CLI 0.61.0. It leaves out those that are not listed to the model and have a name
// that skills of people often have, e.g. "commit".
func namesOf(agent Agent) []string {
	switch agent {
	case ClaudeCode:
		return []string{
			"artifact-design", "artifact-diagramming", "claude-api", "claude-in-chrome", "code-review", "commit-push-pr",
			"dataviz", "fewer-permission-prompts", "init", "insights", "keybindings-help", "loop", "plugin-authoring",
			"pr-comments", "run", "run-skill-generator", "security-review", "setup-claude", "simplify", "statusline",
			"team-onboarding", "update-config", "workflow-authoring",
		}
	case Codex:
		return []string{"imagegen", "openai-docs", "skill-creator", "skill-installer"}
	case Copilot:
		return []string{"customize-cloud-agent", "github-pr-media"}
	case Gemini:
		return []string{"skill-creator"}
	}
	return nil
}
