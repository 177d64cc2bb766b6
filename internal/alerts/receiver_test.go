package alerts_test

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

// A request is one that a receiver recorded.
type request struct {
	header http.Header
	body   []byte
	at     time.Time
}

func (r request) id() string { return r.header.Get(standardwebhooks.HeaderWebhookID) }

// object decodes the body.
func (r request) object(t *testing.T) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(r.body, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// A receiver is a real server on this machine that records its requests.
type receiver struct {
	*httptest.Server
	t   *testing.T
	mu  sync.Mutex
	got []request
}

// receive starts a receiver that handles the n-th request with the n-th handler,
// and all further ones with the last.
func receive(t *testing.T, answers ...http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{t: t}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender has died
		}
		r.mu.Lock()
		r.got = append(r.got, request{req.Header, body, time.Now()})
		answer := answers[min(len(r.got), len(answers))-1]
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request{}, r.got...)
}

// await waits for the n-th request.
func (r *receiver) await(n int) []request {
	r.t.Helper()
	apptest.Eventually(r.t, "the notice", func() bool { return len(r.requests()) >= n })
	return r.requests()
}

// answering makes a handler from a status and pairs of header names and values.
func answering(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
	}
}
