// Package judgetest is a model server for tests and benchmarks of what asks
// models. It speaks both wire formats as the real ones do, down to the bodies
// of their errors, refuses what they would refuse, answers by script, and
// misbehaves as real servers do.
package judgetest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// The wire formats, as --judge-api names them.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
)

// A Responder answers the requests for which no reply was queued. It may be
// called from several goroutines at once.
type Responder func(Request) Reply

// A Server is a model server on loopback. Its fields may be changed before the
// first request.
type Server struct {
	// Key is the only one that the server accepts; empty accepts any, and none.
	Key string
	// Refuse names parameters that the model does not support, such as
	// temperature, max_tokens, response_format, json_schema, output_config or
	// tool_choice. A request with one of them is answered as the real servers do.
	Refuse []string
	// Latency is added to every answer.
	Latency time.Duration

	respond Responder
	base    string
	server  *http.Server
	done    chan struct{}

	mu       sync.Mutex
	queue    []Reply
	requests []Request
	busy     int
	mostBusy int
}

// New starts a server for a test. A nil responder answers every request that
// finds no queued reply with "ok".
func New(tb testing.TB, respond Responder) *Server {
	tb.Helper()
	s, err := Start(respond)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Start starts a server, which the caller closes.
func Start(respond Responder) (*Server, error) {
	if respond == nil {
		respond = func(Request) Reply { return Text("ok") }
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{respond: respond, base: "http://" + listener.Addr().String(), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, chat{}) })
	mux.HandleFunc("/v1/messages", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, messages{}) })
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(listener) }() // ends with Close
	return s, nil
}

// Close ends the server and every request that hangs in it.
func (s *Server) Close() {
	close(s.done)
	_ = s.server.Close() // the test is over
}

// URL is the base URL for a wire format, as --judge-url wants it.
func (s *Server) URL(api string) string {
	if api == OpenAI {
		return s.base + "/v1"
	}
	return s.base
}

// Then queues replies: each answers one request, before the responder does.
func (s *Server) Then(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, replies...)
}

// Requests returns what was received so far, refused requests included.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// MostAtOnce is the largest number of requests that were under way together.
func (s *Server) MostAtOnce() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mostBusy
}

// format is one of the two wire formats, from the server's side.
type format interface {
	api() string
	key(h http.Header) string
	// check returns the reply of a real server to a request that is not well
	// formed, or nil.
	check(h http.Header, fields map[string]json.RawMessage) *Reply
	// uses reports whether the request has a parameter.
	uses(fields map[string]json.RawMessage, param string) bool
	read(fields map[string]json.RawMessage) Request
	unsupported(param string) Reply
	failure(status int, message string) []byte
	success(r Request, a Reply) []byte
	requestIDHeader() string
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, f format) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	req, reply := s.receive(r, body, f)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
	}()
	w.Header().Set(f.requestIDHeader(), "req_test")
	if !s.pause(r, reply) {
		return
	}
	reply.write(w, req, f)
}

// receive records a request and decides on its reply.
func (s *Server) receive(r *http.Request, body []byte, f format) (Request, Reply) {
	var fields map[string]json.RawMessage
	parseErr := json.Unmarshal(body, &fields)
	req := f.read(fields)
	req.API, req.Path, req.Header, req.Body, req.Fields = f.api(), r.URL.Path, r.Header.Clone(), body, fields
	refused := s.refusal(r, f, fields, parseErr)

	s.mu.Lock()
	s.requests = append(s.requests, req)
	s.busy++
	s.mostBusy = max(s.mostBusy, s.busy)
	if refused != nil {
		s.mu.Unlock()
		return req, *refused
	}
	if len(s.queue) > 0 {
		reply := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		return req, reply
	}
	s.mu.Unlock()
	return req, s.respond(req)
}

// refusal is what a real server would refuse whatever its model says.
func (s *Server) refusal(r *http.Request, f format, fields map[string]json.RawMessage, parseErr error) *Reply {
	switch {
	case r.Method != http.MethodPost:
		return &Reply{Status: http.StatusMethodNotAllowed, Message: "Method Not Allowed"}
	case s.Key != "" && f.key(r.Header) != s.Key:
		// A careless server: it repeats what it was sent.
		return &Reply{Status: http.StatusUnauthorized, Message: "Incorrect API key provided: " + f.key(r.Header)}
	case r.Header.Get("Content-Type") != "application/json":
		return &Reply{Status: http.StatusBadRequest, Message: "Content-Type must be application/json"}
	case parseErr != nil:
		return &Reply{Status: http.StatusBadRequest, Message: "We could not parse the JSON body of your request."}
	}
	if bad := f.check(r.Header, fields); bad != nil {
		return bad
	}
	for _, param := range s.Refuse {
		if f.uses(fields, param) {
			reply := f.unsupported(param)
			return &reply
		}
	}
	return nil
}

// pause lets the latency pass. It reports false if the client or the server
// goes first.
func (s *Server) pause(r *http.Request, reply Reply) bool {
	var due <-chan time.Time // never, if it hangs
	if !reply.Hang {
		timer := time.NewTimer(s.Latency + reply.Delay)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
		return true
	case <-r.Context().Done():
	case <-s.done:
	}
	return false
}
