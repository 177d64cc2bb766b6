package cli_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestApprove publishes a version with the approvals of two people.
func TestApprove(t *testing.T) {
	s := startService(t)
	owner := s.loggedIn(t)
	person := func(name string) machine {
		link := strings.TrimSpace(owner.run(t, "member", "invite", name+"@example.org", "--role", "admin").stdout)
		m := newMachine(t)
		m.run(t, "login", "--invite", link, "--name", name).want(t, term.ExitOK, "")
		return m
	}
	ann, bob := person("Ann"), person("Bob")
	folder := skillFolder(t, "pdf", "Reads tables")
	owner.must(t, "push", folder, "--version", "1.0.0")
	if got := owner.must(t, "gates", "policy", "pdf", "--approvals", "2"); !strings.Contains(got, "Approvals") {
		t.Errorf("the policy is %q", got)
	}
	if got := owner.must(t, "gates", "policy", "pdf", "--host-reviews"); !strings.Contains(got, "2, reviews on the code host count") {
		t.Errorf("the policy is %q", got)
	}
	if got := ann.must(t, "approvals"); !strings.Contains(got, "Nothing waits") {
		t.Errorf("got %q", got)
	}
	writeSkill(t, folder, "pdf", "Reads all tables")
	if got := owner.must(t, "push", folder, "--version", "1.1.0"); !strings.Contains(got, "is a candidate") || !strings.Contains(got, "whetstone approvals pdf 1.1.0") {
		t.Errorf("got %q", got)
	}
	if got := ann.must(t, "approvals"); !strings.Contains(got, "0 of 2") {
		t.Errorf("got %q", got)
	}
	owner.run(t, "push", folder, "--version", "1.1.0", "--wait", "--wait-for", "1ns").want(t, term.ExitOutdated, "")
	owner.run(t, "approve", "pdf", "1.1.0").want(t, term.ExitDenied, "another person must approve it")
	owner.run(t, "approvals", "pdf").want(t, term.ExitUsage, "name a version, too")
	owner.run(t, "approve", "pdf", "1.1.0", "--reject", "--override").want(t, term.ExitUsage, "not both")
	ann.must(t, "approve", "pdf", "1.1.0", "--reject", "--comment", "why?")
	if r := owner.run(t, "push", folder, "--version", "1.1.0", "--wait"); r.code != term.ExitFailed || !strings.Contains(r.stdout, "pdf 1.1.0 is not current (rejected): Ann rejected it: why?.") {
		t.Errorf("a rejected version: %+v", r)
	}
	if got := bob.must(t, "approve", "pdf", "1.1.0"); !strings.Contains(got, "1 person rejected it") {
		t.Errorf("got %q", got)
	}
	if got := bob.must(t, "approvals", "pdf", "1.1.0"); !strings.Contains(got, "Ann: why?") || !strings.Contains(got, "rejected") {
		t.Errorf("got %q", got)
	}
	var r struct {
		State string
		Given int
	}
	if ann.answers(t, &r, "approve", "pdf", "1.1.0"); r.State != "published" || r.Given != 2 {
		t.Errorf("after two approvals: %+v", r)
	}
	ann.run(t, "approve", "pdf", "1.1.0").want(t, term.ExitFailed, "not a candidate")
	owner.must(t, "push", folder, "--version", "1.1.0", "--wait")

	writeSkill(t, folder, "pdf", "Reads most tables")
	owner.must(t, "push", folder, "--version", "1.2.0")
	owner.run(t, "approve", "pdf", "1.2.0", "--override").want(t, term.ExitUsage, "reason is required")
	if got := owner.must(t, "approve", "pdf", "1.2.0", "--override", "--comment", "it leaks"); !strings.Contains(got, "is published") {
		t.Errorf("got %q", got)
	}
}
