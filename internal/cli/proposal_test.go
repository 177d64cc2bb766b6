package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// proposals is a server with one proposal.
type proposals struct {
	*httptest.Server
	sent []string // what was changed, e.g. `POST /api/v1/proposals/p/apply {"as":"patch"}`
}

const oldSkill, newSkill = "---\nname: pdf\n---\nRead it.\n", "---\nname: pdf\n---\nRead it twice.\n"

func startProposals(t *testing.T) *proposals {
	t.Helper()
	s := &proposals{}
	diff := string(compare.Texts("SKILL.md", oldSkill, newSkill))
	proposal := map[string]any{
		"id": "p", "skill_name": "pdf", "proposal_type": "body", "target": "body", "status": "pending", "reason": "Tables are \x1b[31mcut.",
		"proposed_value": "Read it twice.\n", "diff": diff, "base_version": "1.2.0", "proved": true,
		"proof":      map[string]any{"cases": 10, "current": 0.6, "winner": 0.9, "better": 4, "worse": 1, "p": 0.03, "interval": []float64{0.02, 0.48}},
		"edits":      []any{map[string]any{"op": "replace", "anchor": "Read it.", "text": "Read it twice.", "why": "It misses rows.", "cases": []string{"rows", "sums"}}},
		"created_at": "2026-01-02T03:04:05Z", "outcome": nil,
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{"proposal": proposal}
		if r.Method != http.MethodGet {
			var body map[string]string
			_ = json.NewDecoder(r.Body).Decode(&body)
			s.sent = append(s.sent, fmt.Sprintf("%s %s %v", r.Method, r.URL.Path, body))
			if as := body["as"]; as != "" {
				answer["patch"] = diff
				proposal["status"], proposal["outcome"] = "applied", map[string]any{"kind": as, "state": "candidate", "version": "1.2.1"}
			} else {
				proposal["status"] = body["status"]
			}
		} else if r.URL.Path == "/api/v1/proposals" {
			answer = map[string]any{"proposals": []any{proposal}, "pagination": map[string]int{"total": 1}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestProposals(t *testing.T) {
	m := newMachine(t)
	run := func(s *proposals, args ...string) result {
		t.Helper()
		return m.run(t, append([]string{"proposal"}, append(args, "--server", s.URL, "--api-key", "st_test_x")...)...)
	}
	says := func(r result, code int, part string) {
		t.Helper()
		if r.code != code || !strings.Contains(r.stdout+r.stderr, part) {
			t.Errorf("exit code %d, want %d and %q in\n%s%s", r.code, code, part, r.stdout, r.stderr)
		}
	}
	s := startProposals(t)
	says(run(s, "list", "--status", "pending"), term.ExitOK, "pdf    body     pending  yes     2026-01-02  Tables are [31mcut.")
	shown := run(s, "show", "p")
	for _, part := range []string{
		"pdf: change the body (pending)", "90% instead of 60% of the trials pass on 10 cases that it was neither written from nor chosen by: better on 4, worse on 1",
		"95% interval +2 to +48 points", "It misses rows.", "for 2 cases: rows, sums", "-Read it.\n+Read it twice.\n", "`whetstone proposal apply p` publishes it",
	} {
		if !strings.Contains(shown.stdout, part) {
			t.Errorf("no %q in\n%s", part, shown.stdout)
		}
	}
	if shown.code != term.ExitOK || strings.Contains(shown.stdout, "\x1b") {
		t.Errorf("exit code %d, %q", shown.code, shown.stdout)
	}
	var decoded map[string]any
	run(s, "show", "p", "--json").decode(t, &decoded)
	if decoded["base_version"] != "1.2.0" {
		t.Errorf("JSON is %v", decoded)
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "SKILL.md")
	holds := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("SKILL.md is %q, %v; want %q", got, err, want)
		}
	}
	write(t, file, "---\nname: pdf\n---\nRead it well.\n")
	says(run(s, "apply", "p", "--as", "patch", "--dir", dir), term.ExitFailed, "does not match the text of the proposal (1.2.0): line 4 differs; nothing was changed")
	write(t, file, oldSkill)
	says(run(s, "apply", "p", "--as", "patch", "--dir", dir, "--dry-run"), term.ExitOK, "+Read it twice.")
	holds(oldSkill)
	says(run(s, "apply", "p", "--as", "version", "--dir", dir), term.ExitUsage, "--dir is for --as patch")
	says(run(s, "apply", "p", "--as", "patch", "--dir", filepath.Join(dir, "none")), term.ExitUsage, "There is no folder")
	if len(s.sent) > 0 {
		t.Errorf("nothing was applied, and the server was told %v", s.sent)
	}
	says(run(s, "apply", "p", "--dir", dir), term.ExitOK, "Changed "+file)
	holds(newSkill)
	says(run(startProposals(t), "apply", "p", "--as", "patch"), term.ExitOK, "+Read it twice.")
	says(run(startProposals(t), "apply", "p"), term.ExitOK, "as a version: candidate")
	pull := startProposals(t)
	says(run(pull, "apply", "p", "--as", "pull-request"), term.ExitOK, "as a pull request")
	if len(pull.sent) != 1 || pull.sent[0] != "POST /api/v1/proposals/p/apply map[as:pull_request]" {
		t.Errorf("sent %v", pull.sent)
	}
	says(run(startProposals(t), "approve", "p"), term.ExitOK, "Nothing has changed yet")
	says(run(startProposals(t), "reject", "p"), term.ExitOK, "is rejected")
}
