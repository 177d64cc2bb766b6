package agents_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// A responsesModel answers OpenAI's Responses API from a script: the n-th
// request of a conversation gets the n-th reply.
type responsesModel struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	script   []reply
	requests int
}

func newResponsesModel(t *testing.T) *responsesModel {
	t.Helper()
	m := &responsesModel{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", m.answer)
	m.Server = httptest.NewServer(mux)
	t.Cleanup(m.Close)
	return m
}

type responsesRequest struct {
	Model string `json:"model"`
	Input []struct {
		Type string `json:"type"`
		Role string `json:"role"`
	} `json:"input"`
}

func (m *responsesModel) answer(w http.ResponseWriter, r *http.Request) {
	var in responsesRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		m.t.Errorf("the model got a request that it cannot read: %v", err)
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	out, id := m.next(in)
	w.Header().Set("Content-Type", "text/event-stream")
	writeResponse(w, id, in.Model, out)
}

func (m *responsesModel) next(in responsesRequest) (reply, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	said := 0
	for _, item := range in.Input {
		if item.Type == "function_call" || item.Type == "message" && item.Role == "assistant" {
			said++
		}
	}
	m.requests++
	id := fmt.Sprintf("%s_%d", slug(m.t.Name()), m.requests)
	if said >= len(m.script) {
		m.t.Errorf("the script has %d replies, the model was asked for another", len(m.script))
		return reply{text: "The script is over."}, id
	}
	return m.script[said], id
}

// wantAllSaid checks that the agent asked for every reply, once a conversation.
func (m *responsesModel) wantAllSaid(conversations int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if want := conversations * len(m.script); m.requests != want {
		m.t.Errorf("the model got %d requests, want %d", m.requests, want)
	}
}

// writeResponse streams a reply as the Responses API does.
func writeResponse(w http.ResponseWriter, id, model string, out reply) {
	response := object{"id": "resp_" + id, "object": "response", "model": model, "status": "in_progress", "output": []any{}}
	sequence := 0
	send := func(kind string, fields object) {
		fields["type"], fields["sequence_number"] = kind, sequence
		sequence++
		text, err := json.Marshal(fields)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text)
	}
	send("response.created", object{"response": response})
	var items []any
	if out.text != "" {
		items = append(items, object{
			"id": "msg_" + id, "type": "message", "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": out.text, "annotations": []any{}}},
		})
	}
	for n, call := range out.calls {
		arguments, err := json.Marshal(call.input)
		if err != nil {
			panic(err)
		}
		items = append(items, object{
			"id": fmt.Sprintf("fc_%s_%d", id, n), "type": "function_call", "status": "completed",
			"call_id": fmt.Sprintf("call_%s_%d", id, n), "name": call.tool, "arguments": string(arguments),
		})
	}
	for n, item := range items {
		send("response.output_item.done", object{"output_index": n, "item": item})
	}
	response["status"], response["output"] = "completed", items
	input := out.usage.input + out.usage.cacheRead
	response["usage"] = object{
		"input_tokens": input, "input_tokens_details": object{"cached_tokens": out.usage.cacheRead},
		"output_tokens": out.usage.output, "output_tokens_details": object{"reasoning_tokens": 0},
		"total_tokens": input + out.usage.output,
	}
	send("response.completed", object{"response": response})
}
