package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
)

const someRun = "0190b0f0-0000-7000-8000-000000000001"

// eventsServer answers a run's events: what each connection gets, and what it
// asked for.
func eventsServer(t *testing.T, connections ...string) (c *client.Client, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			_, _ = io.WriteString(w, `{"run":{"id":"`+someRun+`","status":"succeeded","cases":[{"id":"one","verdict":"pass"}]}}`)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Last-Event-ID"))
		if len(seen) > len(connections) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, connections[len(seen)-1])
	}))
	t.Cleanup(server.Close)
	return client.New(client.Options{Server: server.URL, APIKey: "st_test_x"}), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// TestWatchEvalRun takes up a stream that broke off, in the middle of an event
// and after one, and misses nothing.
func TestWatchEvalRun(t *testing.T) {
	t.Parallel()
	const (
		begun = "id: 1\nevent: status\ndata: {\"status\":\"running\"}\n\n"
		first = "id: 2\nevent: case\ndata: {\"id\":\"one\",\"verdict\":\"pass\",\"progress\":{\"done\":1,\"total\":2}}\n\n"
		half  = "id: 3\nevent: progress\ndata: {\"done\":2"
		whole = "id: 3\nevent: progress\ndata: {\"done\":2,\"total\":2}\n\n"
		ended = "id: 4\nevent: status\ndata: {\"status\":\"succeeded\"}\n\n"
	)
	all := []string{"1 status", "2 case one 1/2", "3 progress 2/2", "4 status"}
	for _, row := range []struct {
		name               string
		connections        []string
		wantTold, wantFrom []string
	}{
		{"one stream", []string{": ok\n\n" + begun + first + whole + ended}, all, []string{""}},
		{"broken off", []string{begun + first + half, whole, ended}, all, []string{"", "2", "3"}},
		{"over when asked again", []string{begun + first + whole}, all[:3], []string{"", "3"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c, asked := eventsServer(t, row.connections...)
			var told []string
			run, err := c.WatchEvalRun(t.Context(), someRun, func(e client.EvalEvent) { told = append(told, eventLine(e)) })
			if err != nil || run.Status != "succeeded" || len(run.Cases) != 1 {
				t.Errorf("got %+v, %v", run, err)
			}
			if diff := cmp.Diff(row.wantTold, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(row.wantFrom, asked()); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}

func eventLine(e client.EvalEvent) string {
	text := e.ID + " " + e.Name
	if e.Case != nil {
		text += " " + e.Case.ID
	}
	if e.Progress != nil {
		text += fmt.Sprintf(" %d/%d", e.Progress.Done, e.Progress.Total)
	}
	return text
}

func TestWatchEvalRunFails(t *testing.T) {
	t.Parallel()
	c, _ := eventsServer(t, "id: 1\nevent: progress\ndata: {\n\n")
	if _, err := c.WatchEvalRun(t.Context(), someRun, func(client.EvalEvent) {}); err == nil || !strings.Contains(err.Error(), "is not valid") {
		t.Errorf("got %v", err)
	}
}

// TestDeleteEvalSuite deletes a suite of the real service. A second time it is
// gone.
func TestDeleteEvalSuite(t *testing.T) {
	t.Parallel()
	c := startService(t).client()
	suite, err := c.CreateEvalSuite(t.Context(), api.NewEvalSuite{
		Name: "Checks", SourceKind: "manual", VerifierKind: "deterministic", Cases: []api.CaseFields{{"id": json.RawMessage(`"one"`), "case_kind": json.RawMessage(`"exact_match"`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteEvalSuite(t.Context(), suite.ID); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, c.DeleteEvalSuite(t.Context(), suite.ID), http.StatusNotFound, "")
	if suites, err := c.EvalSuites(t.Context(), client.EvalSuiteFilter{}); err != nil || len(suites) != 0 {
		t.Errorf("got %+v, %v, want no suites", suites, err)
	}
}
