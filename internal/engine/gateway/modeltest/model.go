// Package modeltest has scripted models: servers on loopback that answer in the
// wire formats of model servers what a test tells them to, streamed or in one
// piece, and keep every request that they got.
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A Reply is what the model answers to one request: a text, or calls of tools.
type Reply struct {
	Text  string
	Calls []Call
	Usage Tokens
	// Status, if not 0, refuses the request with an error of the wire format.
	Status int
}

// A Call is one of a tool.
type Call struct {
	Tool  string
	Input Object
}

// Tokens is the usage that the model reports with a reply. They are disjoint.
type Tokens struct {
	Input, Output, CacheRead, CacheWrite int64
}

// An Object is one of JSON.
type Object = map[string]any

// SubagentTask begins the prompt of every subagent, which tells its conversation
// from the main one.
const SubagentTask = "You are the subagent."

// A Request is what the model was asked.
type Request struct {
	Method, Host, URI string
	Header            http.Header
	Body              []byte
}

// A Model answers from a script. The n-th request of a conversation gets the n-th
// reply, so a request that is retried gets the same one.
type Model struct {
	*httptest.Server
	t    *testing.T
	wire wire

	mu       sync.Mutex
	script   []Reply
	subagent []Reply // for a conversation that begins with SubagentTask
	choose   func(first string) []Reply
	asked    int
	requests []Request
}

// A wire is the wire format of a model server.
type wire interface {
	path() string
	// read returns how often the assistant has spoken, and what the conversation
	// begins with.
	read(body []byte) (said int, first string, err error)
	stream(w io.Writer, id, model string, r Reply)
	whole(id, model string, r Reply) Object
	failure(status int) Object
}

// Messages starts a model that speaks Anthropic's Messages API.
func Messages(t *testing.T, script ...Reply) *Model { t.Helper(); return start(t, messages{}, script) }

// Responses starts a model that speaks OpenAI's Responses API.
func Responses(t *testing.T, script ...Reply) *Model {
	t.Helper()
	return start(t, responses{}, script)
}

// Chat starts a model that speaks OpenAI's chat completions.
func Chat(t *testing.T, script ...Reply) *Model { t.Helper(); return start(t, chat{}, script) }

// Google starts a model that speaks Google's generateContent.
func Google(t *testing.T, script ...Reply) *Model { t.Helper(); return start(t, google{}, script) }

func start(t *testing.T, w wire, script []Reply) *Model {
	t.Helper()
	m := &Model{t: t, wire: w, script: script}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

// Script sets the replies of every conversation from now on.
func (m *Model) Script(replies ...Reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = replies
}

// ScriptBy sets a function that returns the replies of a conversation by what it
// begins with.
func (m *Model) ScriptBy(choose func(first string) []Reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.choose = choose
}

// Subagent sets the replies to subagents.
func (m *Model) Subagent(replies ...Reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subagent = replies
}

// Requests returns all requests so far.
func (m *Model) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// WantAllSaid checks that every reply was asked for, once a conversation.
func (m *Model) WantAllSaid(conversations int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if want := conversations * (len(m.script) + len(m.subagent)); m.asked != want {
		m.t.Errorf("the model got %d requests, want %d", m.asked, want)
	}
}

func (m *Model) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		m.t.Errorf("read a request to the model: %v", err)
	}
	m.mu.Lock()
	m.requests = append(m.requests, Request{r.Method, r.Host, r.RequestURI, r.Header, body})
	m.mu.Unlock()
	generates := m.wire == google{} && strings.HasPrefix(r.URL.Path, "/v1beta/models/") // the path has the model's name
	if r.Method != http.MethodPost || r.URL.Path != m.wire.path() && !generates {
		http.NotFound(w, r)
		return
	}
	var in struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	said, first, err := m.wire.read(body)
	if err != nil || json.Unmarshal(body, &in) != nil {
		m.t.Errorf("the model got a request that it cannot read: %v: %s", err, body)
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	if generates {
		in.Model, _, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/models/"), ":")
	}
	in.Stream = in.Stream || strings.HasSuffix(r.URL.Path, ":streamGenerateContent")
	reply, id := m.next(said, first)
	w.Header().Set("Request-Id", "req_"+id)
	switch {
	case reply.Status != 0:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(reply.Status)
		_, _ = w.Write(encode(m.wire.failure(reply.Status)))
	case in.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		m.wire.stream(w, id, in.Model, reply)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(encode(m.wire.whole(id, in.Model, reply)))
	}
}

func (m *Model) next(said int, first string) (Reply, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	script := m.script
	if m.choose != nil {
		script = m.choose(first)
	}
	if strings.Contains(first, SubagentTask) {
		script = m.subagent
	}
	m.asked++
	id := fmt.Sprintf("%s_%d", slug(m.t.Name()), m.asked)
	if said >= len(script) {
		m.t.Errorf("the script has %d replies, the model was asked for another", len(script))
		return Reply{Text: "The script is over."}, id
	}
	return script[said], id
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

func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // maps, texts and numbers
	}
	return text
}

// event writes a server-sent event whose name is also the type of its data.
func event(w io.Writer, kind string, fields Object) {
	fields["type"] = kind
	_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, encode(fields)) // the agent may have gone
}
