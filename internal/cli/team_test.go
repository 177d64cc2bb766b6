package cli_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestTeam makes a team with members, which owns a skill.
func TestTeam(t *testing.T) {
	s := startService(t)
	owner := s.loggedIn(t)
	link := strings.TrimSpace(owner.run(t, "member", "invite", "bob@example.org").stdout)
	newMachine(t).run(t, "login", "--invite", link).want(t, term.ExitOK, "")
	owner.run(t, "team", "list").want(t, term.ExitOK, "")
	if got := owner.must(t, "team", "create", "Data Platform", "bob@example.org"); !strings.Contains(got, "Created @data-platform with 1 member.") {
		t.Errorf("got %q", got)
	}
	owner.run(t, "team", "create", "data platform").want(t, term.ExitFailed, "There is a team data-platform already")
	owner.run(t, "team", "create", "Others", "eve@example.org").want(t, term.ExitFailed, "whetstone member list")
	owner.must(t, "team", "add", "@data-platform", "owner@localhost")
	var crew struct{ Members []struct{ Email string } }
	if owner.answers(t, &crew, "team", "list", "Data Platform"); len(crew.Members) != 2 || crew.Members[0].Email != "bob@example.org" {
		t.Errorf("members %+v", crew)
	}
	owner.must(t, "team", "remove", "data-platform", "owner@localhost")
	owner.run(t, "team", "remove", "data-platform", "owner@localhost").want(t, term.ExitFailed, "Member not found")
	if got := owner.must(t, "team", "list"); !strings.Contains(got, "@data-platform") {
		t.Errorf("the list is %q", got)
	}
	owner.run(t, "owners", "none").want(t, term.ExitFailed, "none")
	owner.run(t, "team", "delete", "data-platform").want(t, term.ExitFailed, "use --yes")
	owner.must(t, "team", "delete", "data-platform", "--yes")
	owner.run(t, "team", "delete", "data-platform", "--yes").want(t, term.ExitFailed, "whetstone team list")
}
