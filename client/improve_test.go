package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
)

// answering is one of a server that gives these answers, by method and URI, and the
// bodies that it was sent.
func answering(t *testing.T, answers map[string]string) (*client.Client, *[]string) {
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
	return client.New(client.Options{Server: server.URL, APIKey: "st_test_x"}), &bodies
}

// TestImproveRuns sends the filters, and reads what comes back.
func TestImproveRuns(t *testing.T) {
	t.Parallel()
	c, _ := answering(t, map[string]string{
		"GET /api/v1/improve-runs?status=no_winner&suite_id=x": `{"improve_runs":[{"id":"r","status":"no_winner","iterations":[{"n":1,"description":null}]}]}`,
	})
	runs, err := c.ImproveRuns(t.Context(), client.ImproveFilter{SuiteID: "x", Status: "no_winner"})
	if err != nil || len(runs) != 1 || runs[0].ID != "r" || !runs[0].Over() || runs[0].Iterations[0].Description != nil {
		t.Errorf("got %+v, %v", runs, err)
	}
}

func TestProposals(t *testing.T) {
	t.Parallel()
	c, bodies := answering(t, map[string]string{
		"GET /api/v1/proposals?page=1&per_page=100&skill_name=pdf&status=pending": `{"proposals":[{"id":"a"}],"pagination":{"total":2}}`,
		"GET /api/v1/proposals?page=2&per_page=100&skill_name=pdf&status=pending": `{"proposals":[{"id":"b"}],"pagination":{"total":2}}`,
		"PATCH /api/v1/proposals/a":      `{"proposal":{"id":"a","status":"approved"}}`,
		"POST /api/v1/proposals/a/apply": `{"proposal":{"id":"a","status":"applied","outcome":{"kind":"patch","state":"given"}},"patch":"the patch"}`,
	})
	all, err := c.Proposals(t.Context(), client.ProposalFilter{SkillName: "pdf", Status: "pending"})
	if err != nil || len(all) != 2 || all[1].ID != "b" {
		t.Errorf("listed %+v, %v", all, err)
	}
	*bodies = nil
	approved, words := "approved", "Reads PDF files."
	if p, err := c.ChangeProposal(t.Context(), "a", api.ProposalChange{Status: &approved}); err != nil || p.Status != "approved" {
		t.Errorf("approved %+v, %v", p, err)
	}
	if _, err := c.ChangeProposal(t.Context(), "a", api.ProposalChange{ProposedValue: &words}); err != nil {
		t.Error(err)
	}
	p, patch, err := c.ApplyProposal(t.Context(), "a", "patch")
	if err != nil || patch != "the patch" || p.Outcome.State != "given" {
		t.Errorf("applied %+v %q, %v", p, patch, err)
	}
	want := []string{`{"status":"approved"}`, `{"proposed_value":"Reads PDF files."}`, `{"as":"patch"}`}
	if diff := cmp.Diff(want, *bodies); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}
