package agents

import (
	"encoding/json"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/gateway"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// callsOf reads the calls of all answers.
func callsOf(a adapter, answers []gateway.Answer) (calls []Call) {
	for _, answer := range answers {
		for _, c := range answer.Calls {
			if len(calls) == maxCalls {
				return calls
			}
			call := a.call(c.Tool, c.Input)
			call.Tool, call.Detail = text.Clean(text.Truncate(call.Tool, 200)), text.Clean(text.Truncate(call.Detail, maxDetail))
			call.Input = c.Input
			calls = append(calls, call)
		}
	}
	return calls
}

// callOf is a call of a tool whose input has a field "skill" or "name" if it is
// the one that loads skills, and a command or a path otherwise.
func callOf(tool, loads, input string) Call {
	var in struct {
		Skill   string      `json:"skill"`
		Name    string      `json:"name"`
		Command commandLine `json:"command"`
		Cmd     commandLine `json:"cmd"`
		Path    string      `json:"path"`
		File    string      `json:"filePath"`
		FileToo string      `json:"file_path"`
	}
	_ = json.Unmarshal([]byte(input), &in) // other tools have other fields
	c := Call{Tool: tool, Detail: input}
	if tool == loads && loads != "" {
		c.Skill, c.Loads = in.Skill+in.Name, true // one of them
		return c
	}
	for _, text := range []string{string(in.Command), string(in.Cmd), in.Path, in.File, in.FileToo} {
		if text != "" {
			c.Skill, c.Detail = skillIn(text), text
		}
	}
	return c
}

// A commandLine is a text, or a list of arguments.
type commandLine string

// UnmarshalJSON never fails: what is neither is another tool's.
func (c *commandLine) UnmarshalJSON(raw []byte) error {
	var line string
	var args []string
	switch {
	case json.Unmarshal(raw, &line) == nil:
		*c = commandLine(line)
	case json.Unmarshal(raw, &args) == nil:
		*c = commandLine(strings.Join(args, " "))
	}
	return nil
}
