package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/whetstone-dev/whetstone/client"
)

func TestSendDelivery(t *testing.T) {
	t.Parallel()
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/api/v1/repohost/webhook" || r.Header.Get("X-GitHub-Delivery") != "id" || r.Header.Get("X-GitHub-Event") != "push" ||
			r.Header.Get("X-Hub-Signature-256") != "sha256=x" || r.Header.Get("Content-Type") != "application/json" || string(body) != "{}" {
			t.Errorf("got %s %v %s", r.URL, r.Header, body)
		}
		if tries++; tries == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	c := client.New(client.Options{Server: server.URL})
	d := client.Delivery{ID: "id", Event: "push", Signature: "sha256=x", Body: []byte("{}")}
	if err := c.SendDelivery(t.Context(), d); err != nil || tries != 2 {
		t.Errorf("got %v after %d tries, want success after 2", err, tries)
	}
	server.Close()
}

func TestSyncConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/repohost/connections/one/sync" {
			t.Errorf("got %s %s", r.Method, r.URL)
		}
		_, _ = io.WriteString(w, `{"connection_id":"one","status":"published","version":"1.2.0"}`)
	}))
	t.Cleanup(server.Close)
	got, err := client.New(client.Options{Server: server.URL}).SyncConnection(t.Context(), "one")
	if err != nil || got.ConnectionID != "one" || got.Status != "published" || got.Version == nil || *got.Version != "1.2.0" {
		t.Errorf("got %+v, %v", got, err)
	}
}
