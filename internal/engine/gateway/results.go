package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A Result is what a program sent back to the model for a tool call.
type Result struct {
	At     time.Time // of the request that has it
	Output string    // its beginning
	Failed bool      // the program says so
}

// A sentResult is a result in a request, with the id of its call.
type sentResult struct {
	id     string
	output string
	failed bool
}

// Limits of what is kept of the results of a session. Later ones are empty. A hostile program
// invents results freely.
const (
	maxResult       = 16 << 10
	maxResults      = 4 << 20 // bytes of all outputs
	maxResultCount  = 20_000
	maxConversation = 8 << 20 // bytes of a request whose results are read
	maxCallID       = 200
)

// callID is the id of a call as it is kept. Some are as long as the call.
func callID(id string) string {
	if len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// keepResults stores the tool results in a request. Every request repeats the ones before it, so
// the first occurrence of an id wins: only that one has the time at which the result was sent.
func (s *Session) keepResults(at time.Time, conversation json.RawMessage) {
	if len(conversation) > maxConversation {
		return
	}
	known := func(id string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, ok := s.results[callID(id)]
		return ok
	}
	for _, r := range s.upstream.wire.results(conversation, known) {
		s.keepResult(at, r)
	}
}

func (s *Session) keepResult(at time.Time, r sentResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := callID(r.id)
	if _, known := s.results[id]; known || id == "" || len(s.results) == maxResultCount {
		return
	}
	output := text.Clean(text.Truncate(r.output, min(maxResult, max(0, s.resultsLeft))))
	s.resultsLeft -= len(output)
	s.results[id] = Result{At: at, Output: output, Failed: r.failed}
}

// lastItems visits the items of a list from the end until visit returns false. Items are decoded
// one at a time, so that a conversation with megabytes isn't decoded for its last few.
func lastItems[T any](list json.RawMessage, visit func(T) bool) {
	var raw []json.RawMessage
	if json.Unmarshal(list, &raw) != nil {
		return
	}
	for _, r := range slices.Backward(raw) {
		var item T
		if json.Unmarshal(r, &item) != nil || !visit(item) {
			return
		}
	}
}

// A partText is the text of a message: a string, or parts with texts.
type partText string

// UnmarshalJSON never fails: other parts, e.g. images, have no text.
func (t *partText) UnmarshalJSON(raw []byte) error {
	var whole string
	var parts []struct {
		Text string `json:"text"`
	}
	switch {
	case json.Unmarshal(raw, &whole) == nil:
		*t = partText(whole)
	case json.Unmarshal(raw, &parts) == nil:
		var texts []string
		for _, p := range parts {
			if p.Text != "" {
				texts = append(texts, p.Text)
			}
		}
		*t = partText(strings.Join(texts, "\n"))
	}
	return nil
}

func (messages) conversation() string { return "messages" }

// results reads back to the model's last message: what comes after it is new. The other formats do
// the same.
func (messages) results(conversation json.RawMessage, _ func(id string) bool) (all []sentResult) {
	type block struct {
		Type    string   `json:"type"`
		ID      string   `json:"tool_use_id"`
		Content partText `json:"content"`
		Failed  bool     `json:"is_error"`
	}
	type message struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	lastItems(conversation, func(m message) bool {
		var blocks []block
		_ = json.Unmarshal(m.Content, &blocks) // a plain text has no results
		for _, b := range blocks {
			if b.Type == "tool_result" {
				all = append(all, sentResult{b.ID, string(b.Content), b.Failed})
			}
		}
		return m.Role != "assistant"
	})
	return all
}

func (chat) conversation() string { return "messages" }

func (chat) results(conversation json.RawMessage, _ func(id string) bool) (all []sentResult) {
	type message struct {
		Role    string   `json:"role"`
		ID      string   `json:"tool_call_id"`
		Content partText `json:"content"`
	}
	lastItems(conversation, func(m message) bool {
		if m.Role == "tool" {
			all = append(all, sentResult{id: m.ID, output: string(m.Content)})
		}
		return m.Role != "assistant"
	})
	return all
}

func (responses) conversation() string { return "input" }

// results reads back to the first one that is known, since calls and their results
// may alternate.
func (responses) results(conversation json.RawMessage, known func(id string) bool) (all []sentResult) {
	type item struct {
		Type   string   `json:"type"`
		ID     string   `json:"call_id"`
		Output partText `json:"output"`
	}
	lastItems(conversation, func(i item) bool {
		if !strings.HasSuffix(i.Type, "_call_output") {
			return i.Type != "message"
		}
		all = append(all, sentResult{id: i.ID, output: string(i.Output)})
		return !known(i.ID)
	})
	return all
}

func (google) conversation() string { return "contents" }

// results pairs the results of a message with the calls of the one before it, which
// have no ids of their own.
func (google) results(conversation json.RawMessage, _ func(id string) bool) (all []sentResult) {
	type content struct {
		Parts []struct {
			Call     *googleCall `json:"functionCall"`
			Response *struct {
				Response struct {
					Output string          `json:"output"`
					Error  json.RawMessage `json:"error"`
				} `json:"response"`
			} `json:"functionResponse"`
		} `json:"parts"`
	}
	lastItems(conversation, func(c content) bool {
		if len(all) == 0 {
			for _, p := range c.Parts {
				if p.Response == nil {
					continue
				}
				r := p.Response.Response
				all = append(all, sentResult{output: r.Output, failed: r.Error != nil})
				if r.Error != nil {
					all[len(all)-1].output = string(r.Error)
				}
			}
			return true
		}
		n := 0
		for _, p := range c.Parts {
			if p.Call != nil && n < len(all) {
				all[n].id = p.Call.key()
				n++
			}
		}
		// Without any call the message before isn't one of the model: read on.
		return n == 0
	})
	return all
}

// A googleCall is a call of a tool.
type googleCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// key identifies a call in a conversation by its id or, where it has none, by its name and
// arguments. These are sorted, since the program may send them back in another order.
func (c googleCall) key() string {
	if c.ID != "" {
		return c.ID
	}
	var args any
	if json.Unmarshal(c.Args, &args) != nil {
		return c.Name
	}
	sorted, err := json.Marshal(args)
	if err != nil {
		return c.Name
	}
	return c.Name + " " + string(sorted)
}
