package transcripts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/builtin"
)

// Codex writes a session into a file rollout-<time>-<session>.jsonl, whose lines
// are translated to entries as Claude Code writes them.

// rolloutName matches the name of such a file without its extension.
var rolloutName = regexp.MustCompile(`^rollout-.+-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$`)

// A rolloutLine is a line of Codex. As with entry, only what is used is declared.
type rolloutLine struct {
	Timestamp string         `json:"timestamp"`
	Type      string         `json:"type"`
	Payload   rolloutPayload `json:"payload"`
}

// Which fields are set depends on Type.
type rolloutPayload struct {
	Type    string        `json:"type"`
	ID      string        `json:"id"`
	Role    string        `json:"role"`    // of a message
	Content []rolloutText `json:"content"` // of a message
	Name    string        `json:"name"`    // of a call
	CallID  string        `json:"call_id"` // of a call
	// What goes into a call and comes out of it.
	Arguments string        `json:"arguments"`
	Input     string        `json:"input"` // of a custom tool
	Output    rolloutOutput `json:"output"`
	TurnID    string        `json:"turn_id"` // equals turn.id of the OTLP events
	Item      rolloutItem   `json:"item"`    // that was completed
	CWD       string        `json:"cwd"`
	Version   string        `json:"cli_version"`
	Model     string        `json:"model"`
	Git       struct {
		Branch string `json:"branch"`
	} `json:"git"`
	Meta struct {
		TurnID string `json:"turn_id"`
	} `json:"internal_chat_message_metadata_passthrough"`
}

// A rolloutOutput is what a tool answered in words, "" if it answered otherwise.
type rolloutOutput string

// UnmarshalJSON accepts anything.
func (o *rolloutOutput) UnmarshalJSON(raw []byte) error {
	var words string
	if json.Unmarshal(raw, &words) == nil {
		*o = rolloutOutput(words)
	}
	return nil
}

type rolloutText struct {
	Text string `json:"text"`
}

// A rolloutItem is what a person or Codex did.
type rolloutItem struct {
	Type     string        `json:"type"`
	ID       string        `json:"id"`
	Status   string        `json:"status"`
	Output   string        `json:"aggregated_output"` // of a command
	Command  []string      `json:"command"`
	ExitCode *int          `json:"exit_code"` // of a command
	CWD      string        `json:"cwd"`       // of a command: a URL
	Content  []rolloutText `json:"content"`   // of a message
	Parsed   []struct {    // the parts of a command
		Type string `json:"type"`
		Path string `json:"path"`
	} `json:"parsed_cmd"`
}

// parseRollout parses a line of Codex.
func parseRollout(l line) (e entry, err error) {
	if l.long {
		return e, fmt.Errorf("the line is longer than %d MiB", maxLine>>20)
	}
	var r rolloutLine
	raw := bytes.TrimSpace(l.text)
	if len(raw) == 0 {
		return e, errIrrelevant
	}
	err = json.Unmarshal(raw, &r)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); err != nil && (!ok || r.Type == "") {
		return e, errors.New("the line is not a JSON object")
	}
	e, ok := r.entry()
	if !ok {
		return e, errIrrelevant
	}
	if err != nil {
		return e, fmt.Errorf("the line is not as transcripts are: %w", err)
	}
	e.line = l.number
	e.at, err = parseTime(r.Timestamp)
	return e, err
}

// entry translates a line; it reports false if there is nothing to import in it. The same event
// is often there twice, as what was said to the model (response_item) and as what happened
// (event_msg); only one of them is used.
func (r rolloutLine) entry() (entry, bool) {
	p := r.Payload
	switch r.Type + " " + p.Type {
	case "session_meta ", "turn_context ":
		e := entry{Type: "session", CWD: p.CWD, Version: p.Version, GitBranch: p.Git.Branch}
		e.Message.Model = p.Model
		return e, true
	case "response_item function_call", "response_item custom_tool_call", "response_item local_shell_call":
		e := entry{Type: "assistant", PromptID: p.Meta.TurnID}
		e.Message.Content = content{{
			Type: "tool_use", ID: p.CallID, Name: p.Name,
			Input: input{raw: cmp.Or(p.Arguments, p.Input)},
		}}
		return e, true
	case "response_item function_call_output", "response_item custom_tool_call_output":
		// Whether it failed is known from the item that was completed.
		e := entry{Type: "output", PromptID: p.Meta.TurnID}
		e.Message.Content = content{toolResult(p.CallID, string(p.Output))}
		return e, true
	case "response_item message":
		return p.message()
	case "event_msg item_completed":
		return p.item()
	}
	return entry{}, false
}

var (
	// loadedSkill begins the message with the text of a skill that a prompt names.
	loadedSkill = regexp.MustCompile(`^<skill>\s*<name>([^<]+)</name>`)
	// skillRoot and offeredSkill match lines of the list of skills.
	skillRoot    = regexp.MustCompile("(?m)^- `(r[0-9]+)` = `([^`]+)`$")
	offeredSkill = regexp.MustCompile(`(?m)^- ([^:\s]+): .*\(file: ([^/)]+)/[^)]*\)$`)
)

// message translates what is shown to the model: a skill, or the list of skills.
func (p rolloutPayload) message() (entry, bool) {
	all := joinTexts(p.Content)
	if name := loadedSkill.FindStringSubmatch(all); name != nil && p.Role == "user" {
		return entry{Type: "skill", UUID: p.ID, PromptID: p.Meta.TurnID, loaded: name[1]}, true
	}
	if p.Role != "developer" || !strings.Contains(all, "<skills_instructions>") {
		return entry{}, false
	}
	bundled := map[string]bool{}
	for _, root := range skillRoot.FindAllStringSubmatch(all, -1) {
		bundled[root[1]] = strings.HasSuffix(root[2], "/.system")
	}
	e := entry{Type: "attachment", Attachment: attachment{Type: "skill_listing"}}
	for _, skill := range offeredSkill.FindAllStringSubmatch(all, -1) {
		if !bundled[skill[2]] {
			e.Attachment.Names = append(e.Attachment.Names, skill[1])
		}
	}
	return e, true
}

// item translates a prompt, an answer, or a command that has ended. A command is a user's line,
// as Claude Code has results of tools.
func (p rolloutPayload) item() (entry, bool) {
	i := p.Item
	switch i.Type {
	case "UserMessage":
		e := entry{Type: "user", UUID: i.ID, PromptID: p.TurnID}
		e.Message.Content = content{{Type: "text", Text: joinTexts(i.Content)}}
		return e, true
	case "AgentMessage":
		e := entry{Type: "assistant", PromptID: p.TurnID}
		e.Message.ID = i.ID
		e.Message.Content = content{{Type: "text", Text: joinTexts(i.Content)}}
		return e, true
	case "CommandExecution":
		e := entry{Type: "user", PromptID: p.TurnID, command: i.shellCall()}
		result := toolResult(i.ID, i.Output)
		result.IsError = i.Status == "failed"
		e.Message.Content = content{result}
		// A file that is not there was not read; a longer command may have failed after it.
		missing := result.IsError && len(i.Parsed) == 1
		for _, part := range i.Parsed {
			if skill, ok := skillOfFile(part.Path); ok && part.Type == "read" && !missing {
				e.read = skill
			}
		}
		return e, true
	}
	return entry{}, false
}

// toolResult returns what a tool answered as a block.
func toolResult(callID, output string) block {
	raw, err := json.Marshal(output)
	if err != nil {
		panic(err) // strings always marshal
	}
	return block{Type: "tool_result", ToolUseID: callID, Content: result{raw: string(raw)}}
}

func joinTexts(all []rolloutText) string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = t.Text
	}
	return strings.TrimSpace(strings.Join(texts, "\n"))
}

// addRead adds a skill whose file Codex has read by itself, which is how it uses
// one: once in a turn, as it reports by OTLP. 0.6: it may also have been read for another
// reason, e.g. to edit it.
func (t *turn) addRead(e entry) {
	id := e.PromptID + ":implicit:" + e.read
	for _, r := range t.invocations {
		if r.SkillInvocationID == id {
			return
		}
	}
	t.invoke(e, invocationRecord{
		SkillInvocationID: id, SkillName: e.read,
		InvocationMode: "inferred", Triggered: true, Confidence: 0.6, Unconfirmed: builtin.Skill(builtin.Codex, e.read),
	})
}
