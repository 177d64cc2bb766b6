package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestGates shows, repeats and overrides what a gate has blocked, and sets the
// policy.
func TestGates(t *testing.T) {
	_, m, suite := gateService(t)
	if got := m.must(t, "gates", "list"); !strings.HasPrefix(got, "No gates; ") {
		t.Errorf("got %q", got)
	}
	m.run(t, "gates", "policy", "pdf", "--trials", "1000").want(t, term.ExitUsage, "trials")
	got := m.must(t, "gates", "policy", "pdf", "--mode", "enforce", "--suite", suite, "--trials", "2")
	for _, line := range []string{"enforce", "Queries", "Trials           2", "hold"} {
		if !strings.Contains(got, line) {
			t.Errorf("the policy %q has no %q", got, line)
		}
	}
	bad := t.TempDir()
	writeDescribed(t, bad, "Tells jokes.")
	m.must(t, "push", bad)
	var gates []client.Gate
	for range 1200 {
		if m.answers(t, &gates, "gates", "list", "pdf"); len(gates) > 0 && gates[0].Verdict != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if len(gates) != 1 || gates[0].Verdict == nil || *gates[0].Verdict != "block" {
		t.Fatalf("got the gates %+v, want one that blocks", gates)
	}
	version, id := gates[0].Version, gates[0].ID
	if got := m.must(t, "gates", "list", "--verdict", "block", "--ids"); !strings.Contains(got, id) || !strings.Contains(got, "block") {
		t.Errorf("got %q", got)
	}
	if got := m.must(t, "gates", "show", id); !strings.Contains(got, "worse on 10 of 10 cases") ||
		!strings.Contains(got, "`whetstone gates override "+id) {
		t.Errorf("got %q", got)
	}
	if got := m.must(t, "history", "pdf"); !strings.Contains(got, version+" pushed by cli, candidate") {
		t.Errorf("got %q", got)
	}
	m.run(t, "promote", "pdf", version).want(t, term.ExitUsage, "say why with --reason")
	m.run(t, "gates", "override", id).want(t, term.ExitUsage, "say why with --reason")
	if got := m.must(t, "gates", "override", id, "--reason", "jokes are fine"); !strings.HasPrefix(got, "Version "+version+" is current") {
		t.Errorf("got %q", got)
	}
	m.run(t, "promote", "pdf", version, "--reason", "x").want(t, term.ExitFailed, "is published, not a candidate")
	if got := m.must(t, "withdraw", "pdf", version, "--reason", "not funny"); !strings.Contains(got, "is withdrawn") {
		t.Errorf("got %q", got)
	}
	m.run(t, "rollback", "pdf", version).want(t, term.ExitFailed, "is withdrawn")
	if got := m.must(t, "history", "pdf"); !strings.Contains(got, version+" pushed by cli, withdrawn") {
		t.Errorf("got %q", got)
	}
	if got := m.must(t, "withdraw", "pdf", version, "--undo"); !strings.Contains(got, "no longer withdrawn; `whetstone rollback pdf "+version+"`") {
		t.Errorf("got %q", got)
	}
	m.must(t, "rollback", "pdf", version, "--reason", "funny after all", "--yes")
}

// TestAlerts manages an alert, lets it roll a skill back, and follows the incident.
func TestAlerts(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	s := startService(t, "--allow-private-targets", "--alert-interval", "1s")
	m := s.loggedIn(t)
	m.must(t, "push", skillFolder(t, "pdf", "Good."))
	s.graded(t, 1)
	if got := m.must(t, "alert", "list"); !strings.HasPrefix(got, "No alerts; ") {
		t.Errorf("got %q", got)
	}
	m.run(t, "alert", "create", "--email", "a@example.org", "--webhook", hook.URL).want(t, term.ExitUsage, "name one channel")
	var owned client.Alert
	m.answers(t, &owned, "alert", "create", "--skill", "pdf")
	if owned.Channel != "owners" || len(owned.Warnings) != 1 {
		t.Errorf("got %+v, want an alert for the owners, and a warning that there is no mail server", owned)
	}
	m.must(t, "alert", "delete", owned.ID)
	m.run(t, "alert", "create", "--skill", "nothing", "--webhook", hook.URL).want(t, term.ExitFailed, "not found")
	m.run(t, "alert", "create", "--threshold", "75", "--webhook", hook.URL).want(t, term.ExitUsage, "threshold must be between 0 and 1")
	var made client.Alert
	m.answers(t, &made, "alert", "create", "--skill", "pdf", "--webhook", hook.URL)
	if made.Sensitivity != "sequential" || made.Threshold != 0.8 || made.SigningSecret == nil {
		t.Errorf("got %+v, want a sequential alert", made)
	}
	for _, c := range []struct{ args, want string }{
		{"list", "the pass rate is below 80"},
		{"show", "sequential"},
		{"test", "delivered"},
		{"snooze", "Snoozed until"},
		{"snooze --for 0s", "no longer snoozed"},
		{"disable", "The alert is off."},
		{"enable", "The alert is on."},
		{"delete", "Deleted."},
	} {
		command, rest, _ := strings.Cut(c.args, " ")
		args := append([]string{"alert", command}, strings.Fields(rest)...)
		if command != "list" {
			args = append(args, made.ID)
		}
		if got := m.must(t, args...); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
	m.run(t, "alert", "ack", made.ID).want(t, term.ExitFailed, "not found")

	if got := m.must(t, "incident", "list"); got != "No incidents.\n" {
		t.Errorf("got %q", got)
	}
	bad := skillFolder(t, "pdf", "Bad.")
	if err := os.WriteFile(bad+"/more.md", []byte("worse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.must(t, "push", bad)
	m.must(t, "install", "pdf")
	s.graded(t, 0)
	m.answers(t, &made, "alert", "create", "--skill", "pdf", "--sensitivity", "confident", "--rollback", "--webhook", hook.URL)
	var all []client.Incident
	for range 1200 {
		if m.answers(t, &all, "incident", "list", "--state", "open"); len(all) > 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if len(all) != 1 {
		t.Fatalf("got the incidents %+v, want one", all)
	}
	if got := m.must(t, "incident", "show", all[0].ID); !strings.Contains(got, "pdf 1.0.1: open") ||
		!strings.Contains(got, "Installations with the version: 1 (") || !strings.Contains(got, "was rolled back; 1.0.0 is current") {
		t.Errorf("got %q", got)
	}
}

// graded reports sessions of pdf with a grade.
func (s service) graded(t *testing.T, rate int) {
	t.Helper()
	var all []string
	for i := range 10 {
		all = append(all, fmt.Sprintf(`{"grading_id":"g%d-%d","session_id":"s%d-%d","skill_name":"pdf","graded_at":%q,"pass_rate":%d}`,
			rate, i, rate, i, time.Now().UTC().Format(time.RFC3339Nano), rate))
	}
	s.api(t).Post("/api/v1/push", `{"canonical":{"grading_results":[`+strings.Join(all, ",")+`]}}`).Want(http.StatusCreated)
}
