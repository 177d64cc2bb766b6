package cli_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestMember invites, promotes and removes people, and hands the ownership over.
func TestMember(t *testing.T) {
	s := startService(t)
	owner := s.loggedIn(t)
	link := strings.TrimSpace(owner.run(t, "member", "invite", "bob@example.org", "--role", "admin", "--expires", "2d").stdout)
	if !strings.HasPrefix(link, s.url+"/invite/inv_") {
		t.Fatalf("the link is %q", link)
	}
	owner.run(t, "member", "invite", "owner@localhost").want(t, term.ExitFailed, "is a member of this organisation already")
	owner.run(t, "member", "invite", "--expires", "90d").want(t, term.ExitUsage, "expires_in")

	bob := newMachine(t)
	bob.run(t, "login", "--invite", "x").want(t, term.ExitUsage, "must be a link like")
	bob.run(t, "login", "--invite", s.url+"/invite/inv_x").want(t, term.ExitFailed, "This invitation is not known")
	bob.run(t, "login", "--invite", link, "--name", "Bob").want(t, term.ExitOK, "")
	newMachine(t).run(t, "login", "--invite", link).want(t, term.ExitFailed, "was used already")
	var all []struct{ Email, Name, Role, Kind string }
	if bob.answers(t, &all, "member", "list"); len(all) != 2 || all[1].Email != "bob@example.org" || all[1].Name != "Bob" || all[1].Role != "admin" {
		t.Fatalf("the list is %+v", all)
	}
	if got := bob.must(t, "member", "list"); !strings.Contains(got, "bob@example.org") {
		t.Errorf("the list is %q", got)
	}
	bob.run(t, "member", "set-role", "bob@example.org", "owner").want(t, term.ExitDenied, "registry:delete")
	bob.run(t, "member", "set-role", "eve@example.org", "viewer").want(t, term.ExitFailed, "whetstone member list")

	owner.run(t, "member", "transfer", "bob@example.org").want(t, term.ExitFailed, "use --yes")
	if got := owner.must(t, "member", "transfer", "BOB@example.org", "--yes"); !strings.Contains(got, "bob@example.org is an owner now, and owner@localhost an admin.") {
		t.Errorf("got %q", got)
	}
	owner.must(t, "member", "invite")
	var invited []struct{ ID, State string }
	owner.answers(t, &invited, "member", "invitations")
	if len(invited) != 2 || invited[0].State != "pending" || invited[1].State != "accepted" {
		t.Errorf("invitations %+v", invited)
	}
	owner.must(t, "member", "uninvite", invited[0].ID)
	bob.run(t, "member", "remove", "owner@localhost").want(t, term.ExitFailed, "use --yes")
	bob.must(t, "member", "remove", "owner@localhost", "--yes")
	owner.run(t, "member", "list").want(t, term.ExitDenied, "revoked")
	if bob.answers(t, &all, "member", "list", "--removed"); len(all) != 1 || all[0].Email != "owner@localhost" {
		t.Errorf("removed %+v", all)
	}
	bob.run(t, "member", "leave", "--yes").want(t, term.ExitFailed, "is the only owner")
}

// TestUserInEmergency: the operator of the server can do what owners can.
func TestUserInEmergency(t *testing.T) {
	i := newInstallation(t)
	link := i.must(t, "user", "invite", "--org", "acme", "--email", "bob@example.org", "--role", "owner", "--public-url", "https://w.example/")["url"].(string)
	if !strings.HasPrefix(link, "https://w.example/invite/inv_") {
		t.Errorf("the link is %q", link)
	}
	i.must(t, "user", "create", "--org", "acme", "--email", "ada@example.org", "--role", "owner")
	i.run(t, "user", "remove", "--org", "acme", "ada@example.org").want(t, term.ExitFailed, "is the only owner")
	i.must(t, "user", "create", "--org", "acme", "--email", "eve@example.org")
	i.must(t, "user", "set-role", "--org", "acme", "eve@example.org", "owner")
	i.must(t, "user", "remove", "--org", "acme", "ada@example.org")
	i.run(t, "user", "set-role", "--org", "acme", "eve@example.org", "viewer").want(t, term.ExitFailed, "is the only owner")
	var all []map[string]any
	i.mustInto(t, &all, "user", "list", "--org", "acme")
	for _, u := range all {
		if u["email"] == "ada@example.org" {
			t.Errorf("ada is still listed: %v", all)
		}
	}
}
