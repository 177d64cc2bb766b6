package agents

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
)

// A Command is an agent of the operator's own: a command line.
type Command struct {
	// Argv may contain {instruction}, {model}, {url} of the model without a path,
	// {home} and {dir}. Without {instruction}, stdin gets it.
	Argv []string `json:"argv"`
	// SkillsDir is where its skills go: below the home folder if it begins with
	// "~/", else below the working folder.
	SkillsDir string `json:"skills_dir"`
	// Env may contain the same.
	Env map[string]string `json:"env"`
	// Transcript is the agent whose output its own is like, e.g. "claude-code", or
	// "" if it cannot be read.
	Transcript string `json:"transcript"`
}

var agentName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// ParseCommand reads the JSON of the setting agent-command. The error is Malformed and names the
// agent.
func ParseCommand(name, raw string) (c Command, err error) {
	bad := func(format string, args ...any) error {
		return fault.Invalid("agent-command", "%s: %s", name, fmt.Sprintf(format, args...))
	}
	if _, builtin := builtins()[name]; builtin || !agentName.MatchString(name) {
		return c, bad("the name must be of lower case letters, digits and hyphens, and not that of another agent")
	}
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil || decoder.More() {
		return c, bad(`must be JSON like {"argv":["prog","{instruction}"],"skills_dir":".agents/skills","env":{},"transcript":"codex"}`)
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return c, bad("argv must have a program")
	}
	// The path is joined to a folder of the host when skills are installed: it must not lead out of
	// it.
	if dir := strings.TrimPrefix(c.SkillsDir, "~/"); path.Clean("/"+dir) != "/"+strings.TrimSuffix(dir, "/") {
		return c, bad("skills_dir must be a path below the working folder, or ~/... below the home folder")
	}
	if _, ok := builtins()[c.Transcript]; !ok && c.Transcript != "" {
		return c, bad("transcript must be the name of an agent whose output is read, or empty")
	}
	return c, nil
}

// command is the adapter of a Command.
type command struct{ Command }

func (c command) program() string { return c.Argv[0] }

// apis lists all formats but Google's: which one the program speaks isn't known, so that every
// configured model of those formats is offered.
func (command) apis() []gateway.API {
	return []gateway.API{gateway.Anthropic, gateway.OpenAI, gateway.Responses}
}

func (c command) skillsDir() string { return strings.TrimSuffix(c.SkillsDir, "/") }

// start fills the placeholders in a single pass, so that braces in the instruction itself are left
// alone.
func (c command) start(t task) invocation {
	fill := strings.NewReplacer("{instruction}", t.instruction, "{model}", t.model, "{url}", t.url, "{home}", t.home,
		"{dir}", t.dir)
	in := invocation{stdin: t.instruction, env: map[string]string{
		"MODEL_URL": t.url, "MODEL_NAME": t.model, "MODEL_KEY": placeholderKey,
	}}
	for _, arg := range c.Argv[1:] {
		if strings.Contains(arg, "{instruction}") {
			in.stdin = ""
		}
		in.args = append(in.args, fill.Replace(arg))
	}
	for name, value := range c.Env {
		in.env[name] = fill.Replace(value)
	}
	return in
}

// read reads the output like that of another agent. Without one, all of it is the
// final message, and what the agent did is unknown.
func (c command) read(output []byte) *transcript {
	if other, ok := builtins()[c.Transcript]; ok {
		return other.read(output)
	}
	return nil
}

// call reads it like that of another agent. Without one, reading a SKILL.md
// activates the skill, and whether it is activated in another way is unknown.
func (c command) call(tool, input string) Call {
	if other, ok := builtins()[c.Transcript]; ok {
		return other.call(tool, input)
	}
	return codex{}.call(tool, input)
}

func (c command) tellsSkills() bool { return c.Transcript != "" }

// builtins are the adapters that need no setting.
func builtins() map[string]adapter {
	return map[string]adapter{
		ClaudeCode: claudeCode{}, Codex: codex{}, Copilot: copilot{}, OpenCode: openCode{}, Gemini: gemini{},
	}
}
