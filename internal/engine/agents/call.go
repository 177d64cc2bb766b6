package agents

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
)

// readAnswers turns the gateway's answers into those of an outcome, and collects the tool calls of
// all of them. At most maxCalls are kept in all: a model in a loop makes thousands of calls.
func readAnswers(a adapter, from []gateway.Answer) (answers []Answer, calls []Call) {
	for _, g := range from {
		t := g.Tokens
		answer := Answer{
			At: g.At, Took: g.Took, Tokens: t.Input + t.Output + t.CacheRead + t.CacheWrite, Micros: g.Micros,
			Model: g.Model, Text: g.Text,
		}
		for _, c := range g.Calls[:min(len(g.Calls), maxCalls-len(calls))] {
			call := a.call(c.Tool, c.Input)
			call.Tool, call.Detail = text.Clean(text.Truncate(call.Tool, 200)), text.Clean(text.Truncate(call.Detail, maxDetail))
			call.Input = c.Input
			if r := c.Result; r != nil {
				// The tool ran between the end of the answer that asked for it and the request that
				// carries its result. The clock may have been set back in between, hence max.
				took, ok := max(0, r.At.Sub(g.At.Add(g.Took))), !r.Failed && !failedExit.MatchString(r.Output)
				call.Output, call.Took, call.OK = r.Output, &took, &ok
			}
			calls, answer.Calls = append(calls, call), append(answer.Calls, call)
		}
		answers = append(answers, answer)
	}
	return answers, calls
}

// failedExit finds the exit status of a command in an output whose wire format has no
// field for failures, as Codex and Gemini write it.
var failedExit = regexp.MustCompile(`(?m)\A(?:.*\n){0,4}(?:Process exited with code|Exit Code:) [1-9]`)

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
