package gateway

import (
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
)

// An Answer is what the model said: the text, and the calls of tools that it asked
// for. It is read from the model's answer, which a program that the agent starts
// cannot change, unlike what the agent writes about itself.
type Answer struct {
	At     time.Time // of the request
	Took   time.Duration
	Tokens pricing.Tokens
	Micros *int64 // what the request cost, in millionths of a dollar; nil if its price is unknown
	Model  string // that answered, as the server names it; "" if it does not
	Text   string
	Calls  []ToolCall
}

// A ToolCall is one that the model asked for.
type ToolCall struct {
	ID     string // which its result has, too
	Tool   string
	Input  string  // JSON, or a text for some tools; its beginning
	Result *Result // nil if there is none
}

// Limits of what is kept of the answers of a session. Later ones are counted, but
// empty.
const (
	maxAnswerText = 256 << 10
	maxToolCalls  = 200      // of one answer
	maxToolInput  = 64 << 10 // of one call
	maxAnswers    = 16 << 20 // bytes
)

// A draft collects an answer while its parts arrive. What exceeds the limits is dropped, not an
// error: the record is for people, and the program gets the answer in full.
type draft struct {
	text  []byte
	calls []ToolCall
	open  map[int]int // index of a call by its number in the answer
}

func (d *draft) say(text string) {
	d.text = append(d.text, text[:min(len(text), maxAnswerText-len(d.text))]...)
}

// call appends to the call with a number. In a stream, the first part has the id and the name, and
// later parts have pieces of the input.
func (d *draft) call(number int, id, tool, input string) {
	at, ok := d.open[number]
	if !ok {
		if len(d.calls) == maxToolCalls {
			return
		}
		if d.open == nil {
			d.open = map[int]int{}
		}
		at = len(d.calls)
		d.open[number] = at
		d.calls = append(d.calls, ToolCall{})
	}
	c := &d.calls[at]
	if id != "" {
		c.ID = callID(id)
	}
	c.Tool += tool[:min(len(tool), max(0, 200-len(c.Tool)))]
	c.Input += input[:min(len(input), maxToolInput-len(c.Input))]
}

// next adds a call that arrives in one piece. Its number is negative, so that it never meets one of
// a stream.
func (d *draft) next(id, tool, input string) { d.call(-1-len(d.calls), id, tool, input) }

func (d *draft) answer() Answer { return Answer{Text: string(d.text), Calls: d.calls} }

func (a Answer) size() (n int) {
	n = len(a.Text)
	for _, c := range a.Calls {
		n += len(c.ID) + len(c.Tool) + len(c.Input)
	}
	return n
}

// said reads content_block_start, content_block_delta and message, the last of which is an answer
// without streaming. Other events, e.g. thinking, say nothing.
func (messages) said(data []byte, d *draft) {
	type block struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	var in struct {
		Type    string  `json:"type"`
		Index   int     `json:"index"`
		Block   block   `json:"content_block"`
		Content []block `json:"content"`
		Delta   struct {
			Text string `json:"text"`
			JSON string `json:"partial_json"`
		} `json:"delta"`
	}
	if json.Unmarshal(data, &in) != nil {
		return
	}
	switch in.Type {
	case "content_block_start": // its input is empty, and follows
		d.say(in.Block.Text)
		if in.Block.Type == "tool_use" {
			d.call(in.Index, in.Block.ID, in.Block.Name, "")
		}
	case "content_block_delta":
		d.say(in.Delta.Text)
		if in.Delta.JSON != "" {
			d.call(in.Index, "", "", in.Delta.JSON)
		}
	case "message":
		for _, b := range in.Content {
			d.say(b.Text)
			if b.Type == "tool_use" {
				d.next(b.ID, b.Name, string(b.Input))
			}
		}
	}
}

// said reads both chat.completion and chat.completion.chunk, which differ in the name of the field.
func (chat) said(data []byte, d *draft) {
	type part struct {
		Content string `json:"content"`
		Calls   []struct {
			Index    *int   `json:"index"` // of a part of a stream
			ID       string `json:"id"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	var in struct {
		Choices []struct {
			Delta   part `json:"delta"`
			Message part `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &in) != nil {
		return
	}
	for _, c := range in.Choices {
		for _, p := range []part{c.Delta, c.Message} {
			d.say(p.Content)
			for _, call := range p.Calls {
				if call.Index != nil {
					d.call(*call.Index, call.ID, call.Function.Name, call.Function.Arguments)
				} else {
					d.next(call.ID, call.Function.Name, call.Function.Arguments)
				}
			}
		}
	}
}

// said reads only the events of finished items: the deltas before them repeat the same text, and
// response.completed repeats all items.
func (responses) said(data []byte, d *draft) {
	type item struct {
		Type      string          `json:"type"`
		ID        string          `json:"call_id"`
		Name      string          `json:"name"`
		Arguments string          `json:"arguments"` // of a function
		Input     string          `json:"input"`     // of a custom tool
		Action    json.RawMessage `json:"action"`    // of the local shell
		Content   []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	var in struct {
		Type   string `json:"type"`
		Item   item   `json:"item"`
		Output []item `json:"output"` // of a whole answer
	}
	if json.Unmarshal(data, &in) != nil {
		return
	}
	// "output" of the top level is that of an answer without streaming.
	items := in.Output
	if in.Type == "response.output_item.done" {
		items = []item{in.Item}
	}
	for _, i := range items {
		switch i.Type {
		case "message":
			for _, part := range i.Content {
				d.say(part.Text)
			}
		case "function_call", "custom_tool_call":
			d.next(i.ID, i.Name, i.Arguments+i.Input) // one of them
		case "local_shell_call":
			d.next(i.ID, "local_shell", string(i.Action))
		}
	}
}

// said reads both forms: a chunk of a stream is a whole response with one part of the text.
// Thoughts are not what the model said.
func (google) said(data []byte, d *draft) {
	var in struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					Text    string      `json:"text"`
					Thought bool        `json:"thought"`
					Call    *googleCall `json:"functionCall"`
				} `json:"parts"`
			} `json:"content"`
		} `json:"candidates"`
	}
	if json.Unmarshal(data, &in) != nil {
		return
	}
	for _, c := range in.Candidates {
		for _, p := range c.Content.Parts {
			if !p.Thought {
				d.say(p.Text)
			}
			if p.Call != nil {
				d.next(p.Call.key(), p.Call.Name, string(p.Call.Args))
			}
		}
	}
}
