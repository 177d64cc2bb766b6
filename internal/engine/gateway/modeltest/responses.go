package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
)

// responses is the wire format of OpenAI's Responses API.
type responses struct{}

func (responses) path() string { return "/v1/responses" }

func (responses) read(body []byte) (said int, first string, err error) {
	var in struct {
		Input []struct {
			Type    string          `json:"type"`
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"input"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return 0, "", err
	}
	for _, item := range in.Input {
		if item.Type == "function_call" || item.Type == "message" && item.Role == "assistant" {
			said++
		} else if said == 0 {
			first += string(item.Content) // the instruction follows what the agent says about itself
		}
	}
	return said, first, nil
}

func (responses) items(id string, r Reply) (items []any) {
	if r.Text != "" {
		items = append(items, Object{
			"id": "msg_" + id, "type": "message", "role": "assistant", "status": "completed",
			"content": []any{Object{"type": "output_text", "text": r.Text, "annotations": []any{}}},
		})
	}
	for n, call := range r.Calls {
		items = append(items, Object{
			"id": fmt.Sprintf("fc_%s_%d", id, n), "type": "function_call", "status": "completed",
			"call_id": fmt.Sprintf("call_%s_%d", id, n), "name": call.Tool, "arguments": string(encode(call.Input)),
		})
	}
	return items
}

func (m responses) whole(id, model string, r Reply) Object {
	input := r.Usage.Input + r.Usage.CacheRead
	return Object{
		"id": "resp_" + id, "object": "response", "model": model, "status": "completed", "output": m.items(id, r),
		"usage": Object{
			"input_tokens": input, "input_tokens_details": Object{"cached_tokens": r.Usage.CacheRead},
			"output_tokens": r.Usage.Output, "output_tokens_details": Object{"reasoning_tokens": 0},
			"total_tokens": input + r.Usage.Output,
		},
	}
}

func (m responses) stream(w io.Writer, id, model string, r Reply) {
	sequence := 0
	send := func(kind string, fields Object) {
		fields["sequence_number"] = sequence
		sequence++
		event(w, kind, fields)
	}
	send("response.created", Object{"response": Object{
		"id": "resp_" + id, "object": "response", "model": model, "status": "in_progress", "output": []any{},
	}})
	for n, item := range m.items(id, r) {
		send("response.output_item.done", Object{"output_index": n, "item": item})
	}
	send("response.completed", Object{"response": m.whole(id, model, r)})
}

func (responses) failure(status int) Object { return chat{}.failure(status) }
