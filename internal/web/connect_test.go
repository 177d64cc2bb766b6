package web_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/web"
)

// TestClaudePlugins: Claude Code installs archives by https only, so a server without
// it offers the git repository.
func TestClaudePlugins(t *testing.T) {
	for _, test := range []struct{ server, once, team, not string }{
		{"https://whetstone.example", "/o/acme/tok/marketplace.json", "/o/acme/marketplace.json", "marketplace.git"},
		{"http://10.0.0.1:8080", "/o/acme/tok/marketplace.git", "/o/acme/tok/marketplace.git", "marketplace.json"},
	} {
		for _, s := range web.Installers(test.server, "acme", "tok") {
			want := map[string]string{"Claude Code, once": test.once, "Claude Code, for a team": test.team}[s.Title]
			if want == "" {
				continue
			}
			if !strings.Contains(s.Code, test.server+want) || !strings.Contains(s.Code, "everything@whetstone-acme") ||
				strings.Contains(s.Code, test.not) || strings.Contains(s.Code, "$") {
				t.Errorf("%s of %s:\n%s", s.Title, test.server, s.Code)
			}
		}
	}
}
