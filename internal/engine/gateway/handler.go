package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/semaphore"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// discard is the log of a server whose clients are hostile.
func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// ServeHTTP handles a request of the program in the sandbox: it checks the path, waits for a slot,
// memory and budget in this order, and forwards. Everything in the request is hostile.
func (s *Session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u := s.upstream
	if path, _, _ := strings.Cut(r.RequestURI, "?"); path == "/v1/models" && r.Method == http.MethodGet {
		writeJSON(w, http.StatusOK, u.wire.models(u.id)) // agents ask for it; there is one model
		return
	}
	// RequestURI is as the program wrote it: no host, no escapes, no dots pass.
	to, ok := u.wire.route(r.RequestURI, u.id)
	if !ok || r.Method != http.MethodPost || r.Header.Get("Upgrade") != "" {
		s.refuse(w, failure{http.StatusNotFound, "not_found_error", "only the model can be reached from here"})
		return
	}
	// Requests over the limit wait instead of failing: agents with many subagents are legitimate,
	// and would count a refusal as an error of the model.
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-r.Context().Done():
		return
	}
	release, ok := s.reserve(r)
	if !ok {
		return
	}
	defer release()
	fields, size, f := s.readBody(w, r)
	if f != nil {
		s.refuse(w, *f)
		return
	}
	body, conversation := joinFields(fields, size), fields[s.upstream.wire.conversation()]
	var most amount
	if to.metered {
		most = s.most(len(body), s.upstream.wire.maxOutput(fields))
	}
	h := s.meter.begin(r.Context(), most)
	if h == nil {
		if r.Context().Err() != nil {
			return
		}
		s.noteRefusal()
		// The OpenAI and Anthropic SDKs obey this header. Without it they retry a 429 for minutes.
		w.Header().Set("X-Should-Retry", "false")
		s.refuse(w, failure{http.StatusTooManyRequests, "rate_limit_error", "the budget of this trial or of its run is spent"})
		return
	}
	e := exchange{
		s: s, to: to, body: body, size: len(body), sent: release, started: time.Now(), answer: head{limit: maxRecordedAnswer},
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	if to.metered { // while the model answers: a conversation may have megabytes
		reading.Go(func() { s.keepResults(e.started, conversation) })
	}
	complete := false
	func() {
		// Deferred, as a panic in forward would otherwise leave the budget reserved for good.
		defer func() { h.end(e.end()) }()
		complete = e.forward(w, r)
	}()
	if !complete {
		panic(http.ErrAbortHandler) // the program must not take a part of an answer for all of it
	}
}

// reserve waits until there is memory for a request, which is in memory twice for a moment: as
// read, and as encoded anew. Without a length it counts as the largest. The session's semaphore is
// taken before the shared one, always in this order, so that two sessions cannot deadlock.
func (s *Session) reserve(r *http.Request) (release func(), ok bool) {
	size := r.ContentLength
	if size < 0 || size > maxRequest {
		size = maxRequest
	}
	for i, of := range []*semaphore.Weighted{s.memory, s.shared} {
		if of.Acquire(r.Context(), 2*size) != nil {
			if i > 0 {
				s.memory.Release(2 * size)
			}
			return nil, false
		}
	}
	return sync.OnceFunc(func() {
		s.memory.Release(2 * size)
		s.shared.Release(2 * size)
	}), true
}

// readBody reads a request and reduces its fields to those that may be passed on. It also returns
// the size as it was sent. f is the error for the program.
func (s *Session) readBody(w http.ResponseWriter, r *http.Request) (fields map[string]json.RawMessage, size int, f *failure) {
	invalid := func(status int, message string) (map[string]json.RawMessage, int, *failure) {
		return nil, 0, &failure{status, "invalid_request_error", message}
	}
	if r.Header.Get("Content-Encoding") != "" {
		return invalid(http.StatusUnsupportedMediaType, "the body must not be compressed")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // a Unix socket has deadlines
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return invalid(http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", maxRequest))
	}
	if err != nil {
		return invalid(http.StatusBadRequest, "the body cannot be read")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	// Decoding also removes duplicate fields, of which the server might read
	// another one than the gateway.
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return invalid(http.StatusBadRequest, "the body must be a JSON object")
	}
	if err := s.upstream.wire.adjust(fields, s.upstream.id); err != nil {
		return invalid(http.StatusBadRequest, "the tools cannot be read")
	}
	return fields, len(raw), nil
}

// joinFields encodes the object without parsing its values again, since a conversation may have
// megabytes. The names are sorted, so that the same request gives the same bytes and the upstream's
// prompt cache hits.
func joinFields(fields map[string]json.RawMessage, size int) []byte {
	b := bytes.NewBuffer(make([]byte, 0, size+64))
	separator := byte('{')
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		b.WriteByte(separator)
		b.Write(quote(name))
		b.WriteByte(':')
		b.Write(fields[name])
		separator = ','
	}
	b.WriteByte('}')
	return b.Bytes()
}

// most is the upper bound of what a request can use: a token for each of its bytes (a token is at
// least one), at the price of the dearest kind of input, and all the tokens that its answer may
// have.
func (s *Session) most(size int, output int64) amount {
	p := s.price
	p.Input = max(p.Input, p.CacheRead, p.CacheWrite, p.CacheWriteHour)
	micros, _ := p.Micros(pricing.Tokens{Input: int64(size), Output: output}) // it fits: both are bounded
	return amount{int64(size) + output, micros}
}

// refuse answers with an error of the wire format.
func (s *Session) refuse(w http.ResponseWriter, f failure) {
	writeJSON(w, f.status, s.upstream.wire.failure(f))
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the program may have gone
}

// An exchange is a request that is passed on.
type exchange struct {
	s       *Session
	to      route
	body    []byte // its end, once it is sent
	size    int    // of the whole body
	sent    func() // releases its memory
	started time.Time

	status int
	read   *answerReader // nil if there is no answer that costs
	unread bool          // there may be one that costs, but it was not read
	answer head
}

// forward sends the request upstream and the answer back. It reports whether the
// answer is complete.
func (e *exchange) forward(w http.ResponseWriter, r *http.Request) (complete bool) {
	resp, err := e.send(r)
	// Only the end is kept for the record. The rest is released before the answer is streamed,
	// which may take minutes.
	e.body = bytes.Clone(e.body[max(0, e.size-maxRecordedRequest):])
	e.sent()
	if err != nil {
		e.unreachable(r.Context(), w, err)
		return true
	}
	defer resp.Body.Close()
	e.status = resp.StatusCode
	body, err := decoded(resp)
	if err != nil {
		e.unread = true
		e.noteFailure(w.Header(), Problem{Status: e.status, Message: err.Error()})
		e.s.refuse(w, failure{http.StatusBadGateway, "api_error", err.Error()})
		return true
	}
	// Only a failure is read as a whole. It isn't metered: servers don't charge for it.
	if e.status/100 != 2 {
		e.refused(w, resp.Header, body)
		return true
	}
	e.s.noteSuccess()
	e.copyHeader(w.Header(), resp.Header, "Content-Type", "Request-Id", "X-Request-Id")
	w.WriteHeader(e.status)
	if e.to.metered {
		e.read = newAnswerReader(e.s.upstream.wire, resp.Header.Get("Content-Type"))
	}
	return e.copy(w, body)
}

// decoded returns the body of an answer as plain text. Servers are asked not to compress, but some
// do anyway, and Redact can't find secrets in compressed bytes.
func decoded(resp *http.Response) (io.Reader, error) {
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		return resp.Body, nil
	case "gzip":
		body, err := gzip.NewReader(resp.Body)
		if err != nil {
			return nil, errors.New("the answer of the model's server is not gzip, as it says")
		}
		return &limitedReader{body, maxAnswer}, nil
	default:
		return nil, errors.New("the answer of the model's server has an encoding that it was not asked for")
	}
}

// A limitedReader ends with an error where a decompressed answer is too large.
type limitedReader struct {
	io.Reader
	left int
}

func (r *limitedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= n; r.left < 0 {
		return 0, fault.New(fault.TooLarge, "it is larger than %d bytes", maxAnswer)
	}
	return n, err
}

// send makes the upstream request. Of the program's request, only the body and a few headers of the
// wire format are passed on.
func (e *exchange) send(r *http.Request) (*http.Response, error) {
	u := e.s.upstream
	to := u.base.JoinPath(e.to.path)
	to.RawQuery = e.to.query
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, to.String(), bytes.NewReader(e.body))
	if err != nil {
		return nil, err
	}
	for _, name := range u.wire.headers() {
		if value := r.Header.Get(name); value != "" {
			req.Header.Set(name, value)
		}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Whetstone")
	// A compressed stream arrives in blocks.
	req.Header.Set("Accept-Encoding", "identity")
	u.wire.authorize(req.Header, u.key)
	return e.s.http.Do(req)
}

// copy streams the answer to the program. Bytes that could be the beginning of a secret are held
// back until the next ones decide it. A program that stops reading is cut off by the write
// deadline, so that it can't hold its slot for ever.
func (e *exchange) copy(w http.ResponseWriter, from io.Reader) (complete bool) {
	to := http.NewResponseController(w)
	sinks := []io.Writer{&e.answer, w}
	if e.read != nil {
		sinks = append([]io.Writer{e.read}, sinks...)
	}
	out := e.s.secrets.Writer(io.MultiWriter(sinks...))
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		_ = to.SetWriteDeadline(time.Now().Add(writeTimeout)) // a Unix socket has deadlines
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return false
			}
			if err := to.Flush(); err != nil {
				return false
			}
		}
		if errors.Is(err, io.EOF) {
			return out.Flush() == nil
		}
		if err != nil {
			e.s.note(Problem{Status: e.status, Message: "the answer of the model's server broke off: " + publicMessage(err)})
			return false
		}
	}
}

// end returns the usage of the exchange and adds the exchange to the record. It runs exactly once,
// also when the program has gone.
func (e *exchange) end() Usage {
	s, used := e.s, Usage{}
	if e.read != nil {
		var reported bool
		used.Tokens, reported = e.read.end(int64(e.size))
		if !reported {
			used.Estimated = 1
		}
		var ok bool
		said := e.read.said.answer()
		said.At, said.Took, said.Tokens, said.Model = e.started, time.Since(e.started), used.Tokens, e.read.model
		if used.Micros, ok = s.price.Micros(used.Tokens); s.priced && ok {
			said.Micros = &used.Micros
		} else {
			used.Micros, used.Unpriced = 0, 1
		}
		s.keep(said)
	} else if e.unread && e.to.metered { // the server may count what it has read
		used.Tokens.Input, used.Estimated = estimatedTokens(int64(e.size)), 1
		used.Micros, _ = s.price.Micros(used.Tokens) // it fits: see above
		if !s.priced {
			used.Unpriced = 1
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.add(Exchange{
		At: e.started, Duration: time.Since(e.started), Path: e.to.path, Status: e.status, Metered: e.to.metered,
		Tokens:  used.Tokens,
		Request: string(e.body), Answer: string(e.answer.kept),
	})
	return used
}

// keep stores what the model said until answersLeft is used up; later answers are counted, but
// empty. The callback runs without the mutex, since it may call back.
func (s *Session) keep(a Answer) {
	s.mu.Lock()
	if s.answersLeft -= a.size(); s.answersLeft < 0 {
		a.Text, a.Calls = "", nil
	}
	s.answers = append(s.answers, a)
	s.mu.Unlock()
	if s.answered != nil {
		s.answered(a)
	}
}

// retries is how many requests in a row may fail before the program is told not
// to retry: agents wait for minutes otherwise.
const retries = 3

// unreachable answers a request that got no response. If the program itself has gone, the server
// may still be generating: unread makes end count an estimate.
func (e *exchange) unreachable(ctx context.Context, w http.ResponseWriter, err error) {
	if e.unread = ctx.Err() != nil; e.unread {
		return // the program has gone
	}
	message := "the model cannot be reached: " + publicMessage(err)
	e.noteFailure(w.Header(), Problem{Message: message})
	e.s.refuse(w, failure{http.StatusBadGateway, "api_error", message})
}

// publicMessage returns the part of an error that may be shown. Errors of the network contain the
// URL.
func publicMessage(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	return "the connection failed"
}

// maxError is how much of an error's body is passed on.
const maxError = 64 << 10

// refused passes on an error of the server, without the secrets: servers echo what
// they got.
func (e *exchange) refused(w http.ResponseWriter, header http.Header, from io.Reader) {
	body, _ := io.ReadAll(io.LimitReader(from, 2*maxError)) // as much as there is
	redacted := e.s.secrets.Redact(string(body))            // before it is cut: half a secret is not found
	body = []byte(redacted[:min(len(redacted), maxError)])
	_, _ = e.answer.Write(body)
	p := Problem{Status: e.status, Message: fmt.Sprintf("the model's server answered HTTP %d", e.status)}
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		p.Message += "; check the model's key"
	default:
		p.Message += ": " + text.Ellipsis(text.PlainLine(string(body)), 300)
	}
	if e.status/100 == 3 {
		// A redirect would lead the program nowhere.
		e.noteFailure(w.Header(), p)
		e.s.refuse(w, failure{http.StatusBadGateway, "api_error", p.Message})
		return
	}
	e.noteFailure(w.Header(), p)
	e.copyHeader(w.Header(), header, "Content-Type", "Request-Id", "X-Request-Id", "Retry-After")
	w.WriteHeader(e.status)
	_, _ = w.Write(body) // the program may have gone
}

// copyHeader copies the named headers. No others pass: cookies and rate limits of the operator's
// account are no business of the program.
func (e *exchange) copyHeader(to, from http.Header, names ...string) {
	for _, name := range names {
		if value := from.Get(name); value != "" {
			to.Set(name, e.s.secrets.Redact(value))
		}
	}
}

// noteFailure keeps the problem, and tells the program not to retry if there were
// too many in a row.
func (e *exchange) noteFailure(h http.Header, p Problem) {
	s := e.s
	s.note(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failed) < maxFailures {
		s.failed = append(s.failed, Failure{e.started, time.Since(e.started), p.Message})
	}
	if s.failures++; s.failures >= retries {
		h.Set("X-Should-Retry", "false")
		s.giveUp()
	}
}

func (s *Session) noteRefusal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
	s.giveUp()
}

func (s *Session) note(p Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = &p
}

func (s *Session) noteSuccess() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem, s.failures = nil, 0
}
