package agentstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// sessionID is that of every stand-in.
const sessionID = "0198c0de-0000-7000-8000-000000000001"

// emit writes a line of JSON.
func emit(line object) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // maps, texts and numbers
	}
	fmt.Println(string(text))
}

// claude writes as Claude Code does with --output-format stream-json.
type claude struct{ answers int }

func (*claude) begin() {
	emit(object{"type": "system", "subtype": "init", "session_id": sessionID, "tools": []string{"Bash", "Skill"}})
}

func (c *claude) said(text string, calls []toolCall) {
	c.answers++
	var content []object
	if text != "" {
		content = append(content, object{"type": "text", "text": text})
	}
	for _, call := range calls {
		content = append(content, object{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input})
	}
	emit(object{
		"type": "assistant", "session_id": sessionID, "parent_tool_use_id": nil,
		"message": object{"id": fmt.Sprintf("msg_%d", c.answers), "model": "scripted", "content": content},
	})
}

func (*claude) did(c toolCall, output string, failed bool) {
	emit(object{"type": "user", "session_id": sessionID, "message": object{"role": "user", "content": []object{
		{"type": "tool_result", "tool_use_id": c.id, "content": output, "is_error": failed},
	}}})
}

func (c *claude) end(text string, err error) {
	line := object{
		"type": "result", "subtype": "success", "is_error": err != nil, "session_id": sessionID, "num_turns": c.answers + 1,
		"result": text, "stop_reason": "end_turn", "api_error_status": nil, "terminal_reason": "completed",
	}
	switch {
	case errors.Is(err, errTurns):
		delete(line, "result")
		line["subtype"], line["terminal_reason"] = "error_max_turns", "max_turns"
	case err != nil:
		line["result"], line["api_error_status"], line["terminal_reason"] = err.Error(), 500, "api_error"
	}
	emit(line)
}

// codex writes as Codex does with exec --json.
type codex struct{ items int }

func (c *codex) item(fields object) {
	fields["id"] = fmt.Sprintf("item_%d", c.items)
	c.items++
	emit(object{"type": "item.completed", "item": fields})
}

func (*codex) begin() {
	emit(object{"type": "thread.started", "thread_id": sessionID})
	emit(object{"type": "turn.started"})
}

func (c *codex) said(text string, _ []toolCall) {
	if text != "" {
		c.item(object{"type": "agent_message", "text": text})
	}
}

func (c *codex) did(call toolCall, output string, failed bool) {
	exit, status := 0, "completed"
	if failed {
		exit, status = 1, "failed"
	}
	c.item(object{
		"type": "command_execution", "command": fmt.Sprintf("/bin/bash -lc '%s'", call.input["cmd"]),
		"aggregated_output": output, "exit_code": exit, "status": status,
	})
}

func (*codex) end(_ string, err error) {
	if err != nil {
		emit(object{"type": "turn.failed", "error": object{"message": err.Error()}})
		return
	}
	emit(object{"type": "turn.completed", "usage": object{"input_tokens": 1, "output_tokens": 1}})
}

// copilot writes as the Copilot CLI does with --output-format json.
type copilot struct{}

func (*copilot) begin() {
	emit(object{"type": "session.skills_loaded", "data": object{"skills": []any{}}})
}

func (*copilot) said(text string, calls []toolCall) {
	emit(object{"type": "assistant.message", "data": object{"content": text}})
	for _, c := range calls {
		emit(object{"type": "tool.execution_start", "data": object{
			"toolCallId": c.id, "toolName": c.name, "arguments": c.input,
		}})
	}
}

func (*copilot) did(c toolCall, output string, failed bool) {
	emit(object{"type": "tool.execution_complete", "data": object{
		"toolCallId": c.id, "success": !failed, "result": object{"content": output},
	}})
}

func (*copilot) end(_ string, err error) {
	exit := 0
	if err != nil {
		exit = 1
		emit(object{"type": "session.error", "data": object{"errorType": "query", "message": err.Error()}})
	}
	emit(object{"type": "result", "sessionId": sessionID, "exitCode": exit})
}

// openCode writes as OpenCode does with run --format json.
type openCode struct{}

func (openCode) line(kind string, part object) {
	emit(object{"type": kind, "sessionID": sessionID, "part": part})
}

func (o openCode) begin() { o.line("step_start", object{}) }

func (o openCode) said(text string, calls []toolCall) {
	if text != "" {
		o.line("text", object{"type": "text", "text": text})
	}
	if len(calls) == 0 {
		o.line("step_finish", object{"reason": "stop"})
	}
}

func (o openCode) did(c toolCall, output string, failed bool) {
	status := "completed"
	if failed && c.name == "skill" { // a command that fails is one that was run
		status = "error"
	}
	o.line("tool_use", object{"type": "tool", "tool": c.name, "callID": c.id, "state": object{
		"status": status, "input": c.input, "output": output,
	}})
	o.line("step_finish", object{"reason": "tool-calls"})
}

func (openCode) end(_ string, err error) {
	if err != nil {
		emit(object{"type": "error", "sessionID": sessionID, "error": object{
			"name": "APIError", "data": object{"message": err.Error()},
		}})
	}
}

// gemini writes as the Gemini CLI does with --output-format stream-json.
type gemini struct{}

func (gemini) begin() { emit(object{"type": "init", "session_id": sessionID, "model": "scripted"}) }

func (gemini) said(text string, calls []toolCall) {
	for _, part := range strings.SplitAfter(text, " ") { // it comes in parts
		if part != "" {
			emit(object{"type": "message", "role": "assistant", "content": part, "delta": true})
		}
	}
	for _, c := range calls {
		emit(object{"type": "tool_use", "tool_name": c.name, "tool_id": c.id, "parameters": c.input})
	}
}

func (gemini) did(c toolCall, output string, failed bool) {
	status := "success"
	if failed && c.name == "activate_skill" {
		status = "error"
	}
	emit(object{"type": "tool_result", "tool_id": c.id, "status": status, "output": output})
}

func (gemini) end(_ string, err error) {
	line := object{"type": "result", "status": "success"}
	if err != nil {
		line["status"], line["error"] = "error", object{"type": "FatalError", "message": err.Error()}
	}
	emit(line)
}
