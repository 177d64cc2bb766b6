package cli_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestNames names things as people do, where their ids would do, too.
func TestNames(t *testing.T) {
	s := startService(t, "--allow-private-targets")
	m := s.loggedIn(t)
	dir := skillFolder(t, "pdf", "one")
	m.must(t, "push", dir)

	m.must(t, "source", "upload", dir, "--label", "drafts")
	if got := m.must(t, "source", "show", "drafts"); !strings.Contains(got, "Source      ") && !strings.Contains(got, "drafts") {
		t.Errorf("source show: %s", got)
	}
	m.must(t, "source", "upload", dir, "--source", "drafts")
	m.must(t, "eval", "list", "--source", "drafts")
	m.run(t, "source", "show", "nothing").want(t, term.ExitFailed, "No cloud source has the name or id nothing; `whetstone source list` lists them")

	m.must(t, "catalog-token", "create", "laptops")
	first := m.must(t, "catalog-token", "rotate", "laptops")
	if again := m.must(t, "catalog-token", "rotate", "laptops", "--now"); again == first {
		t.Error("the same token again")
	}
	m.must(t, "catalog-token", "delete", "laptops")
	m.run(t, "catalog-token", "delete", "laptops").want(t, term.ExitFailed, "No active catalog token has the name or id laptops")

	const hook = "http://127.0.0.1:9/hook"
	m.must(t, "webhook", "create", hook, "--events", "version.published")
	m.must(t, "webhook", "pause", hook)
	m.must(t, "webhook", "resume", "127.0.0.1:9")
	m.must(t, "webhook", "deliveries", "127.0.0.1:9")
	m.must(t, "webhook", "create", hook, "--events", "version.published")
	m.run(t, "webhook", "delete", hook).want(t, term.ExitFailed, "2 of them have the name 127.0.0.1:9; use one of the ids ")

	m.must(t, "member", "invite", "bob@example.org")
	m.must(t, "member", "uninvite", "bob@example.org")
	m.run(t, "member", "uninvite", "bob@example.org").want(t, term.ExitFailed, "No pending invitation has the name or id bob@example.org")

	m.must(t, "alert", "create", "--type", "no_data", "--email", "ada@example.org")
	if got := m.must(t, "alert", "show", "all"); !strings.Contains(got, "no session for") {
		t.Errorf("alert show: %s", got)
	}
	m.must(t, "alert", "snooze", "all", "--for", "1h")
	m.must(t, "alert", "disable", "all")
	m.must(t, "alert", "delete", "all", "--yes")
	m.run(t, "alert", "show", "all").want(t, term.ExitFailed, "No alert has the name or id all")

	m.run(t, "gates", "show", "pdf").want(t, term.ExitFailed, "pdf has no gate yet")
	m.run(t, "proposal", "show", "pdf").want(t, term.ExitFailed, "No pending proposal is about a skill named pdf")
	m.run(t, "incident", "show", "pdf").want(t, term.ExitFailed, "No incident has the name or id pdf")
}

// TestNamesOfRuns follows and shows the newest run of a suite, and a case by its name.
func TestNamesOfRuns(t *testing.T) {
	m := startEvals(t)
	m.imported(t, checks)
	m.eval(t, "watch", "Checks").want(t, term.ExitFailed, "The suite Checks has no run yet; `whetstone eval run` starts one")
	var run, watched api.EvalRun
	m.eval(t, "run", "Checks", "--source", m.source, "--json").decode(t, &run)
	m.eval(t, "watch", "Checks", "--json").decode(t, &watched)
	if watched.ID != run.ID {
		t.Errorf("watched %s, want %s", watched.ID, run.ID)
	}
	for _, name := range []string{"Second", "two"} {
		if r := m.eval(t, "trial", "Checks", name); r.code != term.ExitOK || !strings.Contains(r.stdout, "two") {
			t.Errorf("trial %s: %+v", name, r)
		}
	}
	m.eval(t, "trial", "Checks", "three").want(t, term.ExitFailed, "No case of the run has the name or id three")
	m.eval(t, "cancel", "nothing").want(t, term.ExitFailed, "No suite is named nothing")
}
