package lint

import (
	"path"
	"strings"
)

// A power is a place in a script that needs a shell or the network.
type power struct {
	path string
	line int
}

// addPower records the first such place of a script; examples do not count.
func (s *scan) addPower(name string, number int) {
	if n := len(s.powers); s.markdown || s.lower > 0 || n > 0 && s.powers[n-1].path == name {
		return
	}
	s.powers = append(s.powers, power{name, number})
}

// checkTools compares what scripts need with what the skill declares. A skill
// that declares nothing restricts nothing.
func (c *check) checkTools() {
	// Separate the tools at spaces and commas that are not in parentheses: Bash(git add:*)
	// is one.
	depth := 0
	tools := strings.FieldsFunc(c.skill.AllowedTools, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return depth <= 0 && (r == ' ' || r == ',')
	})
	if len(tools) == 0 {
		return
	}
	line := c.field("allowed-tools").Line
	shells := 0
	for _, tool := range tools {
		name, arguments, _ := strings.Cut(tool, "(")
		if !isShell(name) {
			continue
		}
		shells++
		if a := strings.TrimSuffix(arguments, ")"); a == "" || a == "*" || a == "*:*" || a == ":*" {
			c.spec("sec.tools.unrestricted", line, "allowed-tools grants %s without limits.", name)
		}
	}
	if shells > 0 {
		return // a shell can run any of the scripts
	}
	for _, p := range c.powers {
		c.found.add(remark{
			code: "sec.tools.undeclared", path: p.path, line: p.line,
			message: path.Base(p.path) + " uses a shell or the network, and allowed-tools has no tool that could run it.",
		})
	}
}

func isShell(tool string) bool {
	switch strings.ToLower(tool) {
	case "*", "bash", "shell", "terminal", "powershell", "execute", "run_command", "run_shell_command":
		return true
	}
	return false
}
