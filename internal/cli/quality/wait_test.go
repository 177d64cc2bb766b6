package quality_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/cli/quality"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// answering is a server that says this about the gates and the approvals of a version.
func answering(t *testing.T, gates, review string) *server.Session {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := review
		if strings.HasPrefix(r.URL.Path, "/api/v1/gates") {
			answer = `{"gates":[` + gates + `],"pagination":{"page":1,"per_page":100,"total":1,"total_pages":1}}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return server.New(program(), s.URL, "key")
}

func program() *term.Program { return &term.Program{Stdout: io.Discard, Stderr: io.Discard} }

func TestWait(t *testing.T) {
	t.Parallel()
	gate := func(verdict, more string) string {
		return `{"id":"g","version":"1.1.0","mode":"enforce","status":"decided","verdict":"` + verdict + `","reason":"two cases fail"` + more + `}`
	}
	const candidate = `{"state":"candidate","needed":1,"given":0,"rejected":0,"waits_for":"one approval is missing"}`
	for name, c := range map[string]struct {
		gates, review string
		outcome       quality.Outcome
		why           string
		code          int
	}{
		"current":          {gate("pass", ""), `{"state":"published"}`, quality.Current, "", term.ExitOK},
		"no gate":          {"", `{"state":"published"}`, quality.Current, "", term.ExitOK},
		"blocked":          {gate("block", ""), candidate, quality.Blocked, "two cases fail", term.ExitFailed},
		"inconclusive":     {gate("inconclusive", ""), candidate, quality.Inconclusive, "two cases fail", term.ExitInconclusive},
		"withdrawn":        {gate("pass", ""), `{"state":"withdrawn"}`, quality.Withdrawn, "it was withdrawn", term.ExitFailed},
		"waiting":          {gate("pass", ""), candidate, quality.Waiting, "one approval is missing", term.ExitOutdated},
		"overridden":       {gate("block", `,"override":{}`), candidate, quality.Waiting, "one approval is missing", term.ExitOutdated},
		"only reported":    {strings.Replace(gate("block", ""), "enforce", "report", 1), candidate, quality.Waiting, "one approval is missing", term.ExitOutdated},
		"of another":       {strings.Replace(gate("block", ""), "1.1.0", "1.0.0", 1), candidate, quality.Waiting, "one approval is missing", term.ExitOutdated},
		"without a reason": {"", `{"state":"candidate","needed":2,"given":1}`, quality.Waiting, "approvals: 1 of 2", term.ExitOutdated},
		"rejected": {
			"", `{"state":"candidate","rejected":1,"approvals":[{"name":"Ann","decision":"reject","counts":true,"comment":"why?"}]}`,
			quality.Rejected, "Ann rejected it: why?", term.ExitFailed,
		},
	} {
		s := answering(t, c.gates, c.review)
		got, why, err := quality.Wait(t.Context(), program(), s, quality.Candidate{EntryID: "e", Name: "pdf", Version: "1.1.0"})
		if got != c.outcome || why != c.why || err != nil {
			t.Errorf("%s: %s, %q, %v; want %s, %q", name, got, why, err, c.outcome, c.why)
		}
		code := term.ExitOK
		if err := got.Code(); err != nil {
			code = program().Fail(err)
		}
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d", name, code, c.code)
		}
	}
}

func TestWaitIsInterrupted(t *testing.T) {
	t.Parallel()
	s := answering(t, "", `{"state":"candidate"}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := quality.Wait(ctx, program(), s, quality.Candidate{EntryID: "e", Version: "1.1.0", Most: time.Hour}); err == nil {
		t.Error("it does not end with the context")
	}
}
