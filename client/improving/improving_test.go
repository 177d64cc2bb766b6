package improving_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/improving"
)

// newClient is one of a server that gives these answers, by method and URI, and the
// bodies that it was sent.
func newClient(t *testing.T, answers map[string]string) (improving.Client, *[]string) {
	t.Helper()
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Method+" "+r.URL.RequestURI()]
		if !ok {
			t.Errorf("asked for %s %s", r.Method, r.URL.RequestURI())
		}
		body, _ := io.ReadAll(r.Body) // that of a test
		bodies = append(bodies, strings.TrimSpace(string(body)))
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return improving.Client{Client: client.New(client.Options{Server: server.URL, APIKey: "st_test_x"})}, &bodies
}

// TestRuns sends the filters, and reads what comes back.
func TestRuns(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t, map[string]string{
		"GET /api/v1/improve-runs?status=no_winner&suite_id=x": `{"improve_runs":[{"id":"r","status":"no_winner","iterations":[{"n":1,"description":null}]}]}`,
	})
	runs, err := c.Runs(t.Context(), improving.RunFilter{SuiteID: "x", Status: "no_winner"})
	if err != nil || len(runs) != 1 || runs[0].ID != "r" || !runs[0].Over() || runs[0].Iterations[0].Description != nil {
		t.Errorf("got %+v, %v", runs, err)
	}
}

func TestProposals(t *testing.T) {
	t.Parallel()
	c, bodies := newClient(t, map[string]string{
		"GET /api/v1/proposals?page=1&per_page=100&skill_name=pdf&status=pending": `{"proposals":[{"id":"a"}],"pagination":{"total":2}}`,
		"GET /api/v1/proposals?page=2&per_page=100&skill_name=pdf&status=pending": `{"proposals":[{"id":"b"}],"pagination":{"total":2}}`,
		"PATCH /api/v1/proposals/a":      `{"proposal":{"id":"a","status":"approved"}}`,
		"POST /api/v1/proposals/a/apply": `{"proposal":{"id":"a","status":"applied","outcome":{"kind":"patch","state":"given"}},"patch":"the patch"}`,
	})
	all, err := c.Proposals(t.Context(), improving.ProposalFilter{SkillName: "pdf", Status: "pending"})
	if err != nil || len(all) != 2 || all[1].ID != "b" {
		t.Errorf("listed %+v, %v", all, err)
	}
	*bodies = nil
	if p, err := c.SetStatus(t.Context(), "a", "approved"); err != nil || p.Status != "approved" {
		t.Errorf("approved %+v, %v", p, err)
	}
	if _, err := c.SetValue(t.Context(), "a", "Reads PDF files."); err != nil {
		t.Error(err)
	}
	p, patch, err := c.Apply(t.Context(), "a", "patch")
	if err != nil || patch != "the patch" || p.Outcome.State != "given" {
		t.Errorf("applied %+v %q, %v", p, patch, err)
	}
	want := []string{`{"status":"approved"}`, `{"proposed_value":"Reads PDF files."}`, `{"as":"patch"}`}
	if diff := cmp.Diff(want, *bodies); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}
