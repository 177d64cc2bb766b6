// Package eventstest receives the events of an organisation, for tests.
package eventstest

import (
	"fmt"
	"net/http"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
)

// Register makes the world's queue deliver events, also to this machine. It must be
// called before the queue runs.
func Register(w *apptest.World) *events.Service {
	w.T.Helper()
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		w.T.Fatal(err)
	}
	sender, err := notify.New(notify.Options{HTTP: client})
	if err != nil {
		w.T.Fatal(err)
	}
	s := &events.Service{
		DB: w.DB, Jobs: w.Queue, Sender: sender, Seal: sealtest.Keyring(), PublicURL: apptest.PublicURL, AllowPrivate: true, Log: w.Log,
	}
	s.Register()
	return s
}

// A Hook is a webhook that gets all events of an organisation.
type Hook struct {
	*notifytest.Receiver
	Webhook events.Webhook
	t       *testing.T
}

// Subscribe makes a webhook, which answers as given; with 200 if nothing is.
func Subscribe(t *testing.T, s *events.Service, orgID string, answers ...http.HandlerFunc) *Hook {
	t.Helper()
	if len(answers) == 0 {
		answers = []http.HandlerFunc{notifytest.Answering(http.StatusOK)}
	}
	h := &Hook{Receiver: notifytest.Receive(t, answers...), t: t}
	w, err := s.Create(t.Context(), access.Caller{OrgID: orgID, UserID: "ada"}, h.URL, events.Types())
	if err != nil {
		t.Fatal(err)
	}
	h.Webhook = w
	return h
}

// Events returns what arrived, without repeated attempts, each with a good signature.
func (h *Hook) Events() (all []apptest.Object) {
	h.t.Helper()
	verifier, err := standardwebhooks.NewWebhook(h.Webhook.Secret)
	if err != nil {
		h.t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range h.Requests() {
		if err := verifier.Verify(r.Body, r.Header); err != nil {
			h.t.Errorf("signature of %s: %v", r.Body, err)
		}
		e := r.Object(h.t)
		if e["id"] != r.ID() {
			h.t.Errorf("the event is %v, its header says %s", e["id"], r.ID())
		}
		if !seen[r.ID()] {
			seen[r.ID()] = true
			all = append(all, e)
		}
	}
	return all
}

// AwaitEvent waits for the nth event of a type, counted from 1.
func (h *Hook) AwaitEvent(of events.Type, n int) (found apptest.Object) {
	h.t.Helper()
	apptest.Eventually(h.t, fmt.Sprintf("%s number %d", of, n), func() bool {
		count := 0
		for _, e := range h.Events() {
			if e["type"] == string(of) {
				if count++; count == n {
					found = e
				}
			}
		}
		return count >= n
	})
	return found
}

// Only returns the data of the only event of a type, once it is there.
func (h *Hook) Only(of events.Type) apptest.Object {
	h.t.Helper()
	e := h.AwaitEvent(of, 1)
	n := 0
	for _, other := range h.Events() {
		if other["type"] == string(of) {
			n++
		}
	}
	if n != 1 {
		h.t.Errorf("%d events %s, want 1", n, of)
	}
	return e["data"].(apptest.Object)
}
