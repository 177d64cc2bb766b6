package cli_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
)

func TestAudit(t *testing.T) {
	s := startService(t)
	m := newMachine(t)
	remote := []string{"--server", s.url, "--api-key", s.key}
	var all []client.AuditEntry
	m.run(t, append([]string{"audit", "--json"}, remote...)...).decode(t, &all)
	if len(all) != 3 || all[0].Action != "auth.key.create" || all[0].Actor.Kind != "command" {
		t.Errorf("after the first start: %+v", all)
	}
	text := m.run(t, append([]string{"audit", "--action", "auth.user."}, remote...)...)
	if lines := strings.Split(strings.TrimSpace(text.stdout), "\n"); text.code != term.ExitOK || len(lines) != 2 ||
		!strings.Contains(lines[1], "auth.user.create") || !strings.Contains(lines[1], "user owner@localhost") || !strings.Contains(lines[1], "role: owner") {
		t.Errorf("for people: %+v", text)
	}
	if none := m.run(t, append([]string{"audit", "--until", "2020-01-01"}, remote...)...); none.stdout != "No entries.\n" {
		t.Errorf("long ago: %+v", none)
	}
	m.run(t, append([]string{"audit", "--since", "soon"}, remote...)...).wantFailure(t, term.ExitUsage, "since must be an RFC 3339 time or a day like 2026-01-02")
}

func TestRekey(t *testing.T) {
	i := newInstallation(t)
	i.run(t, "rekey").wantFailure(t, term.ExitUsage, "secret-key: there is no key yet; `whetstone serve` creates one")
	i.run(t, "rekey", "--secret-key", "hunter2").wantFailure(t, term.ExitUsage, "secret-key: a key must be the base64 of 32 bytes, as `openssl rand -base64 32` makes it")
	var out map[string]int
	i.mustInto(t, &out, "rekey", "--secret-key", sealtest.Key(0))
	if n, ok := out["resealed"]; !ok || n != 0 {
		t.Errorf("rekey of nothing: %v", out)
	}
}
