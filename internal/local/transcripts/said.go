package transcripts

import (
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// maxSaid is how much of a text is sent, in bytes; the server reads no more.
const maxSaid = 256 << 10

// transcriptRecord is what was said in a prompt, a message of the model or a tool
// call, of which it has the ids. It is sent only if the user asked for it. The server stores it
// sealed, and only if the organisation wants it.
type transcriptRecord struct {
	base
	Role       string    `json:"role"`
	OccurredAt time.Time `json:"occurred_at"`
	Text       string    `json:"text,omitempty"`

	// Of a prompt.
	PromptID       string `json:"prompt_id,omitempty"`
	SourcePromptID string `json:"source_prompt_id,omitempty"`

	// Of a message: what identifies its request, see requestRecord.
	RequestID           string `json:"request_id,omitempty"`
	MessageID           string `json:"message_id,omitempty"`
	Model               string `json:"model,omitempty"`
	InputTokens         int64  `json:"input_tokens,omitempty"`
	OutputTokens        int64  `json:"output_tokens,omitempty"`
	CacheReadTokens     int64  `json:"cache_read_tokens,omitempty"`
	CacheCreationTokens int64  `json:"cache_creation_tokens,omitempty"`
	CacheCreationHour   int64  `json:"cache_creation_1h_tokens,omitempty"`

	// Of a tool call.
	ToolCallID string `json:"tool_call_id,omitempty"`
	ToolName   string `json:"tool_name,omitempty"`
	Success    *bool  `json:"success,omitempty"`
	Input      string `json:"input,omitempty"`
	Output     string `json:"output,omitempty"`
}

// said is what was said in a turn, by the ids of its messages and tool calls. It is bounded by
// maxSaid for each text, not in all: a turn is in memory only while it is read.
type said struct {
	answers, inputs, outputs map[string]string
}

// add notes what a line says. Thoughts of the model are left out.
func (s *said) add(e entry) {
	if e.Type == "assistant" {
		if words := e.Message.Content.text(); words != "" {
			s.answers[e.messageID()] = text.Truncate(strings.TrimSpace(s.answers[e.messageID()]+"\n"+words), maxSaid)
		}
	}
	for _, b := range e.Message.Content {
		switch b.Type {
		case "tool_use":
			s.inputs[b.ID] = text.Truncate(b.Input.raw, maxSaid)
		case "tool_result": // Codex writes two, of which the first is the plain one
			if words := b.Content.text(); s.outputs[b.ToolUseID] == "" {
				s.outputs[b.ToolUseID] = text.Truncate(words, maxSaid)
			}
		}
	}
}

// text returns what a tool answered in words.
func (r result) text() string {
	var c content
	if len(r.raw) == 0 || c.UnmarshalJSON([]byte(r.raw)) != nil {
		return ""
	}
	return c.text()
}

// transcript returns what was said in the turn. Texts are records of their own, so that those
// without them are the same whether or not they are sent.
func (t *turn) transcript() []record {
	var all []record
	if t.asked != nil {
		p := t.promptRecord(false)
		all = append(all, t.transcriptOf(p.base, transcriptRecord{
			Role: "user", OccurredAt: p.OccurredAt, Text: text.Truncate(t.prompt.text, maxSaid),
			PromptID: p.PromptID, SourcePromptID: p.SourcePromptID,
		}))
	}
	for _, c := range t.callOrder {
		all = append(all, t.transcriptOf(c.base, transcriptRecord{
			Role: "tool", OccurredAt: c.OccurredAt, ToolCallID: c.ToolCallID, ToolName: c.ToolName, Success: c.Success,
			Input: t.said.inputs[c.ToolCallID], Output: t.said.outputs[c.ToolCallID],
		}))
	}
	for _, id := range t.order {
		m := t.messages[id]
		// Codex does not say which request an answer is of.
		if words := t.said.answers[id]; words != "" && m.Model != synthetic && (m.RequestID != "" || m.MessageID != "") {
			all = append(all, t.transcriptOf(m.base, transcriptRecord{
				Role: "assistant", OccurredAt: m.OccurredAt, Text: words, SourcePromptID: m.SourcePromptID,
				RequestID: m.RequestID, MessageID: m.MessageID, Model: m.Model, InputTokens: m.InputTokens,
				OutputTokens:    m.OutputTokens,
				CacheReadTokens: m.CacheReadTokens, CacheCreationTokens: m.CacheCreationTokens,
				CacheCreationHour: m.CacheCreationHour,
			}))
		}
	}
	return all
}

func (t *turn) transcriptOf(b base, r transcriptRecord) transcriptRecord {
	r.base = b
	r.RecordKind = transcriptKind
	return r
}
