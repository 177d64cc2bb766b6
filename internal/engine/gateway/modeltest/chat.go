package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
)

// chat is the wire format of OpenAI's chat completions.
type chat struct{}

func (chat) path() string { return "/v1/chat/completions" }

func (chat) read(body []byte) (said int, first string, err error) {
	var in struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return 0, "", err
	}
	for _, message := range in.Messages {
		switch message.Role {
		case "assistant":
			said++
		case "user":
			if first == "" {
				first = string(message.Content)
			}
		}
	}
	return said, first, nil
}

func (chat) usage(u Tokens) Object {
	input := u.Input + u.CacheRead
	return Object{
		"prompt_tokens": input, "completion_tokens": u.Output, "total_tokens": input + u.Output,
		"prompt_tokens_details": Object{"cached_tokens": u.CacheRead},
	}
}

// message returns the answer; calls of a stream have an index.
func (chat) message(id string, r Reply, streamed bool) (Object, string) {
	out, finish := Object{"role": "assistant", "content": r.Text}, "stop"
	var calls []any
	for n, call := range r.Calls {
		one := Object{
			"id": fmt.Sprintf("call_%s_%d", id, n), "type": "function",
			"function": Object{"name": call.Tool, "arguments": string(encode(call.Input))},
		}
		if streamed {
			one["index"] = n
		}
		calls = append(calls, one)
	}
	if calls != nil {
		out["tool_calls"], finish = calls, "tool_calls"
	}
	return out, finish
}

func (c chat) whole(id, model string, r Reply) Object {
	message, finish := c.message(id, r, false)
	return Object{
		"id": "chatcmpl-" + id, "object": "chat.completion", "model": model, "usage": c.usage(r.Usage),
		"choices": []any{Object{"index": 0, "message": message, "finish_reason": finish}},
	}
}

// stream reports the usage in a last chunk without choices, as servers do that
// are asked for it (stream_options.include_usage).
func (c chat) stream(w io.Writer, id, model string, r Reply) {
	send := func(choices []any, usage any) {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", encode(Object{ // the agent may have gone
			"id": "chatcmpl-" + id, "object": "chat.completion.chunk", "model": model, "choices": choices, "usage": usage,
		}))
	}
	message, finish := c.message(id, r, true)
	send([]any{Object{"index": 0, "delta": message, "finish_reason": nil}}, nil)
	send([]any{Object{"index": 0, "delta": Object{}, "finish_reason": finish}}, nil)
	send([]any{}, c.usage(r.Usage))
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

func (chat) failure(status int) Object {
	return Object{"error": Object{
		"message": fmt.Sprintf("scripted error %d", status), "type": "server_error", "param": nil, "code": nil,
	}}
}
