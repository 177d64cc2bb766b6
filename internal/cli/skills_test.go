package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// spend pushes a session that was offered pdf and used acme:pdf, one that was only
// offered it, a name that was called in vain, and what their requests cost.
func (s service) spend(t *testing.T) {
	t.Helper()
	body := strings.ReplaceAll(`{"canonical":{
		"skill_offers":[{"session_id":"s1","occurred_at":"NOW","skill_names":["acme:pdf","pdf"]},{"session_id":"s2","occurred_at":"NOW","skill_names":["pdf"]}],
		"skill_invocations":[
			{"skill_invocation_id":"i1","session_id":"s1","occurred_at":"NOW","skill_name":"acme:pdf","triggered":true},
			{"skill_invocation_id":"i2","session_id":"s1","occurred_at":"NOW","skill_name":"made-up","triggered":false,"unconfirmed":true}],
		"model_requests":[
			{"session_id":"s1","occurred_at":"NOW","request_id":"r1","source_prompt_id":"p","skill_name":"acme:pdf","model":"claude-sonnet-4-5","input_tokens":1000,"output_tokens":100},
			{"session_id":"s1","occurred_at":"NOW","request_id":"r2","model":"our-own","output_tokens":1000}]}}`,
		"NOW", time.Now().UTC().Format(time.RFC3339))
	s.api(t).Post("/api/v1/push", body).Want(201)
}

// listed returns the first column of a table without its head.
func listed(table string) (names []string) {
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

// TestSkillStanding: names that are no skills, hidden and merged ones are listed
// apart, and the commands that hide and merge take names and say how to go back.
func TestSkillStanding(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	for flag, want := range map[string]string{
		"--find=x": "No matching skills", "--merged": "No skills are merged", "--hidden": "No skills are hidden",
		"--unconfirmed": "No unconfirmed names",
	} {
		if got := m.must(t, "skills", "list", flag); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", flag, got, want)
		}
	}
	s.spend(t)
	wantListed := func(want []string, args ...string) {
		t.Helper()
		if diff := cmp.Diff(want, listed(m.must(t, append([]string{"skills"}, args...)...))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", args, diff)
		}
	}
	wantText := func(want string, args ...string) {
		t.Helper()
		if got := strings.Join(strings.Fields(m.must(t, args...)), " "); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
	wantListed([]string{"acme:pdf", "pdf"})
	wantListed([]string{"made-up"}, "list", "--unconfirmed")
	wantText("Unconfirmed no successful use was reported", "skills", "made-up")
	wantText("Trigger rate 0% of 2 sessions that offered it", "skills", "show", "pdf")
	wantText("Cost $0.0045 of 1 request, computed from tokens per use $0.0045 median; 95% cost at most $0.0045 per success - "+
		"tokens 1000 in, 100 out, 0 read from the cache, 0 written to it", "skills", "acme:pdf")
	wantText("acme:pdf unknown - - 100% $0.0045 1 ", "skills")

	wantText("pdf is hidden: lists, alerts and pending proposals leave it out.", "skills", "hide", "pdf")
	wantListed([]string{"pdf"}, "--hidden")
	wantText("Hidden yes; `whetstone skills unhide` shows it again", "skills", "show", "pdf")
	wantText("pdf is listed again.", "skills", "unhide", "pdf")

	wantText("Merged acme:pdf into pdf. What was reported before is moved in the background.", "skills", "merge", "acme:pdf", "pdf")
	wantListed([]string{"acme:pdf"}, "list", "--merged")
	wantText("SKILL MERGED INTO acme:pdf pdf", "skills", "--merged")
	wantText("Merged into pdf; `whetstone skills unmerge` undoes it", "skills", "show", "acme:pdf")
	var detail struct {
		Skill struct {
			Name       string  `json:"name"`
			MergedInto *string `json:"merged_into"`
		} `json:"skill"`
	}
	m.answers(t, &detail, "skills", "unmerge", "acme:pdf")
	if detail.Skill.Name != "acme:pdf" || detail.Skill.MergedInto != nil {
		t.Errorf("unmerged: %+v", detail)
	}
	wantListed([]string{"acme:pdf", "pdf"})

	for _, command := range []string{"show", "hide", "unhide", "unmerge"} {
		m.run(t, "skills", command, "none").want(t, term.ExitFailed, "Skill not found: none; `whetstone skills --find TEXT`")
	}
	m.run(t, "skills", "merge", "pdf", "none").want(t, term.ExitUsage, "there is no skill none to merge into")
	m.run(t, "skills", "merge", "pdf", "made-up").want(t, term.ExitUsage, "made-up is not confirmed")
	m.run(t, "skills", "merge", "pdf").want(t, term.ExitUsage, "<into>")
	member := s.run(t, "key", "create", "--org", "default", "--role", "member", "--json")
	var key struct {
		APIKey string `json:"api_key"`
	}
	member.decode(t, &key)
	m.run(t, "skills", "hide", "pdf", "--api-key", key.APIKey).want(t, term.ExitDenied, "admin")
}

func TestCosts(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	if got := m.must(t, "costs"); !strings.HasPrefix(got, "No model requests in the last 30 days; agents report them") {
		t.Errorf("without requests: %q", got)
	}
	s.spend(t)
	// The price of our-own is unknown, which is not 0.
	want := "SKILL       COST     USES\n" +
		"acme:pdf    $0.0045  1\n" +
		"(no skill)  -\n" +
		"Total       $0.0045  in 7 days\n"
	if diff := cmp.Diff(want, m.must(t, "costs", "--days", "7")); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	var bill map[string]any
	m.answers(t, &bill, "costs")
	if bill["days"] != 30.0 || bill["total"] != 0.0045 || bill["unattributed"] != nil || len(bill["skills"].([]any)) != 1 {
		t.Errorf("bill %v", bill)
	}
	for _, days := range []string{"0", "366", "-1"} {
		m.run(t, "costs", "--days="+days).want(t, term.ExitUsage, "days")
	}

	if got := m.must(t, "prices"); !strings.HasPrefix(got, "No prices of its own: those of the server apply.") {
		t.Errorf("without prices: %q", got)
	}
	file := filepath.Join(t.TempDir(), "prices.json")
	write(t, file, `{"models": [
		{"match": "our-own", "valid_from": "2026-01-01", "input": 0, "output": 2, "cache_read": 0.125}
	]}`)
	if got := m.must(t, "prices", "set", file); !strings.HasPrefix(got, "Stored the prices of 1 model. Costs that agents did not report") {
		t.Errorf("set: %q", got)
	}
	row := "our-own 2026-01-01 0 2 0.125 - -"
	if got := strings.Join(strings.Fields(m.must(t, "prices", "show")), " "); !strings.Contains(got, row) {
		t.Errorf("prices %q, want %q", got, row)
	}
	// What it prints for scripts is a price file.
	write(t, file, m.run(t, "prices", "show", "--json").stdout)
	m.must(t, "prices", "set", file)
	for n, broken := range []string{
		`{"models": [`, `{"models": [{"match": "m", "input": 1, "output": 1},` + "\n" + `{"match": "m", "input": -1, "output": 1}]}`, `[]`,
	} {
		write(t, file, broken)
		m.run(t, "prices", "set", file).want(t, term.ExitUsage, []string{"unexpected EOF", "models[1] (line 2): input must be", "array"}[n])
	}
	m.run(t, "prices", "set", filepath.Join(t.TempDir(), "none")).want(t, term.ExitUsage, "no such file")
	if got := m.must(t, "prices", "reset"); !strings.HasPrefix(got, "The prices of the server apply again.") {
		t.Errorf("reset: %q", got)
	}
	if got, want := m.run(t, "prices", "--json").stdout, "{\n  \"models\": []\n}\n"; got != want {
		t.Errorf("after the reset %q, want %q", got, want)
	}
}
