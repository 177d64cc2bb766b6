package agents_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A reply is what the scripted model answers to one request: a text, or calls of
// tools.
type reply struct {
	text  string
	calls []toolCall
	usage tokens
}

type toolCall struct {
	tool  string
	input map[string]any
}

// tokens is the usage that the model reports with a reply.
type tokens struct {
	input, output, cacheRead, cacheWrite int64
}

// A messagesModel answers Anthropic's Messages API from a script. The n-th
// request of a conversation gets the n-th reply, so a request that is retried
// gets the same one.
type messagesModel struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	main     []reply
	subagent []reply // for a conversation that begins with subagentTask
	requests int
}

// subagentTask begins the prompt of every subagent, which tells its conversation
// from the main one.
const subagentTask = "You are the subagent."

func newMessagesModel(t *testing.T) *messagesModel {
	t.Helper()
	m := &messagesModel{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", m.answer)
	m.Server = httptest.NewServer(mux)
	t.Cleanup(m.Close)
	return m
}

type messagesRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

func (m *messagesModel) answer(w http.ResponseWriter, r *http.Request) {
	var in messagesRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Messages) == 0 {
		m.t.Errorf("the model got a request that it cannot read: %v", err)
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	out, id := m.next(in)
	if !in.Stream {
		m.t.Errorf("the model was asked for an answer in one piece")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Request-Id", "req_"+id)
	writeMessage(w, "msg_"+id, in.Model, out)
}

// next picks the reply by how often the assistant has spoken.
func (m *messagesModel) next(in messagesRequest) (reply, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	script := m.main
	if strings.Contains(string(in.Messages[0].Content), subagentTask) {
		script = m.subagent
	}
	said := 0
	for _, message := range in.Messages {
		if message.Role == "assistant" {
			said++
		}
	}
	if said >= len(script) {
		m.t.Errorf("the script has %d replies, the model was asked for another", len(script))
		script, said = []reply{{text: "The script is over."}}, 0
	}
	m.requests++
	return script[said], fmt.Sprintf("%s_%d", slug(m.t.Name()), m.requests)
}

// wantAllSaid checks that the agent asked for every reply, once.
func (m *messagesModel) wantAllSaid() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if want := len(m.main) + len(m.subagent); m.requests != want {
		m.t.Errorf("the model got %d requests, want %d", m.requests, want)
	}
}

// slug makes a part of an id of the name of a test.
func slug(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, name)
}

type object = map[string]any

// writeMessage streams a reply as the Messages API does.
func writeMessage(w http.ResponseWriter, id, model string, out reply) {
	usage := object{
		"input_tokens": out.usage.input, "output_tokens": 1,
		"cache_read_input_tokens": out.usage.cacheRead, "cache_creation_input_tokens": out.usage.cacheWrite,
	}
	send := func(kind string, fields object) {
		fields["type"] = kind
		text, err := json.Marshal(fields)
		if err != nil {
			panic(err) // maps, texts and numbers
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text)
	}
	send("message_start", object{"message": object{
		"id": id, "type": "message", "role": "assistant", "model": model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}})
	index, stop := 0, "end_turn"
	block := func(start, delta object) {
		send("content_block_start", object{"index": index, "content_block": start})
		send("content_block_delta", object{"index": index, "delta": delta})
		send("content_block_stop", object{"index": index})
		index++
	}
	if out.text != "" {
		block(object{"type": "text", "text": ""}, object{"type": "text_delta", "text": out.text})
	}
	for n, call := range out.calls {
		stop = "tool_use"
		input, err := json.Marshal(call.input)
		if err != nil {
			panic(err)
		}
		block(object{"type": "tool_use", "id": fmt.Sprintf("toolu_%s_%d", id, n), "name": call.tool, "input": object{}},
			object{"type": "input_json_delta", "partial_json": string(input)})
	}
	send("message_delta", object{
		"delta": object{"stop_reason": stop, "stop_sequence": nil},
		"usage": object{"output_tokens": out.usage.output},
	})
	send("message_stop", object{})
}
