package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// messages is the wire format of Anthropic's Messages API.
type messages struct{}

func (messages) path() string { return "/v1/messages" }

func (messages) read(body []byte) (said int, first string, err error) {
	var in struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return 0, "", err
	}
	if len(in.Messages) == 0 {
		return 0, "", errors.New("no messages")
	}
	for _, message := range in.Messages {
		if message.Role == "assistant" {
			said++
		}
	}
	return said, string(in.Messages[0].Content), nil
}

func (messages) usage(u Tokens, output int64) Object {
	return Object{
		"input_tokens": u.Input, "output_tokens": output,
		"cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite,
	}
}

func (messages) content(id string, r Reply) (blocks []any, stop string) {
	stop = "end_turn"
	if r.Text != "" {
		blocks = append(blocks, Object{"type": "text", "text": r.Text})
	}
	for n, call := range r.Calls {
		stop = "tool_use"
		blocks = append(blocks, Object{
			"type": "tool_use", "id": fmt.Sprintf("toolu_%s_%d", id, n), "name": call.Tool, "input": call.Input,
		})
	}
	return blocks, stop
}

func (m messages) whole(id, model string, r Reply) Object {
	blocks, stop := m.content(id, r)
	return Object{
		"id": "msg_" + id, "type": "message", "role": "assistant", "model": model, "content": blocks,
		"stop_reason": stop, "stop_sequence": nil, "usage": m.usage(r.Usage, r.Usage.Output),
	}
}

func (m messages) stream(w io.Writer, id, model string, r Reply) {
	event(w, "message_start", Object{"message": Object{
		"id": "msg_" + id, "type": "message", "role": "assistant", "model": model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": m.usage(r.Usage, 1),
	}})
	blocks, stop := m.content(id, r)
	for index, b := range blocks {
		block := b.(Object)
		var delta Object
		if block["type"] == "text" {
			delta = Object{"type": "text_delta", "text": block["text"]}
			block["text"] = ""
		} else {
			delta = Object{"type": "input_json_delta", "partial_json": string(encode(block["input"]))}
			block["input"] = Object{}
		}
		event(w, "content_block_start", Object{"index": index, "content_block": block})
		event(w, "content_block_delta", Object{"index": index, "delta": delta})
		event(w, "content_block_stop", Object{"index": index})
	}
	event(w, "message_delta", Object{
		"delta": Object{"stop_reason": stop, "stop_sequence": nil},
		"usage": Object{"output_tokens": r.Usage.Output},
	})
	event(w, "message_stop", Object{})
}

func (messages) failure(status int) Object {
	return Object{"type": "error", "error": Object{"type": "api_error", "message": fmt.Sprintf("scripted error %d", status)}}
}
