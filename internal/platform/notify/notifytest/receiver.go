// Package notifytest has a receiver of webhooks, and a mail server, for tests.
package notifytest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// A Request is one that a receiver recorded.
type Request struct {
	Header http.Header
	Body   []byte
	At     time.Time
}

// ID is that of the notice or event.
func (r Request) ID() string { return r.Header.Get(standardwebhooks.HeaderWebhookID) }

// Object decodes the body.
func (r Request) Object(t apptest.T) apptest.Object {
	t.Helper()
	var o apptest.Object
	if err := json.Unmarshal(r.Body, &o); err != nil {
		t.Fatalf("%v", err)
	}
	return o
}

// A Receiver is a real server on this machine that records its requests.
type Receiver struct {
	*httptest.Server
	t   *testing.T
	mu  sync.Mutex
	got []Request
}

// Receive starts a receiver that handles the n-th request with the n-th handler,
// and all further ones with the last.
func Receive(t *testing.T, answers ...http.HandlerFunc) *Receiver {
	t.Helper()
	r := &Receiver{t: t}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender has died
		}
		r.mu.Lock()
		r.got = append(r.got, Request{req.Header, body, time.Now()})
		answer := answers[min(len(r.got), len(answers))-1]
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// Requests returns what came so far.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Request{}, r.got...)
}

// Await waits for the n-th request.
func (r *Receiver) Await(n int) []Request {
	r.t.Helper()
	apptest.Eventually(r.t, "the notice", func() bool { return len(r.Requests()) >= n })
	return r.Requests()
}

// Answering makes a handler from a status and pairs of header names and values.
func Answering(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
	}
}
