package cli_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestServiceAccount creates, uses and deletes a machine, and sets the key policy.
func TestServiceAccount(t *testing.T) {
	s := startService(t)
	owner := s.loggedIn(t)
	if got := owner.must(t, "service-account", "list"); !strings.Contains(got, "No service accounts") {
		t.Errorf("the list is %q", got)
	}
	owner.must(t, "service-account", "create", "deploy-bot", "--role", "admin")
	owner.run(t, "service-account", "create", "Deploy").want(t, term.ExitUsage, "name must be 1 to 63")
	owner.run(t, "service-account", "create", "deploy-bot").want(t, term.ExitFailed, "exists in this organisation")
	owner.run(t, "service-account", "create-key", "nobody").want(t, term.ExitFailed, "whetstone service-account list")
	owner.run(t, "service-account", "create-key", "deploy-bot", "--allow", "nonsense").want(t, term.ExitUsage, "must be a network like")

	if got := owner.must(t, "key-policy", "set", "--max-days", "90", "--require-allowed-ips"); !strings.Contains(got, "at most 90 days") {
		t.Errorf("the policy is %q", got)
	}
	owner.run(t, "service-account", "create-key", "deploy-bot", "--expires", "90d").want(t, term.ExitUsage, "key policy asks for it")
	owner.run(t, "service-account", "create-key", "deploy-bot", "--expires", "91d", "--allow", "127.0.0.1").want(t, term.ExitUsage, "within 90 days")
	good := strings.TrimSpace(owner.must(t, "service-account", "create-key", "deploy-bot", "--expires", "90d", "--allow", "127.0.0.0/8,::1"))
	away := strings.TrimSpace(owner.must(t, "service-account", "create-key", "deploy-bot", "--allow", "10.0.0.0/8"))
	bot := newMachine(t)
	bot.run(t, "key-policy", "show", "--server", s.url, "--api-key", good).want(t, term.ExitOK, "")
	bot.run(t, "key-policy", "show", "--server", s.url, "--api-key", away).want(t, term.ExitDenied, "does not work from the address 127.0.0.1")
	var keys []struct {
		ID         string
		AllowedIPs []string `json:"allowed_ips"`
	}
	owner.answers(t, &keys, "service-account", "keys", "deploy-bot")
	if len(keys) != 2 || strings.Join(keys[1].AllowedIPs, " ") != "127.0.0.0/8 ::1/128" {
		t.Fatalf("its keys are %+v", keys)
	}
	owner.must(t, "service-account", "revoke-key", keys[0].ID)
	owner.must(t, "service-account", "update", "deploy-bot", "--role", "member", "--name", "bot")
	bot.run(t, "key-policy", "show", "--server", s.url, "--api-key", good).want(t, term.ExitDenied, "permission admin")
	owner.run(t, "service-account", "delete", "bot").want(t, term.ExitFailed, "use --yes")
	owner.must(t, "service-account", "delete", "bot", "--yes")
	bot.run(t, "key-policy", "show", "--server", s.url, "--api-key", good).want(t, term.ExitDenied, "revoked")
	var gone []struct{ Name string }
	if owner.answers(t, &gone, "service-account", "list", "--deleted"); len(gone) != 1 || gone[0].Name != "bot" {
		t.Errorf("deleted are %+v", gone)
	}
}

// TestKeyCreateAllow: the operator limits a key to networks.
func TestKeyCreateAllow(t *testing.T) {
	i := newInstallation(t)
	i.must(t, "key", "create", "--org", "acme", "--allow", "10.0.0.0/8,2001:db8::1", "--expires", "90d")
}
