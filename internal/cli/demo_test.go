package cli_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestDemoRefused: only an empty database is filled.
func TestDemoRefused(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	r := i.run(t, "serve", "--demo", "--addr", "127.0.0.1:0")
	if r.code != term.ExitFailed || !strings.Contains(r.stderr, "The database is in use: it has organisations of its own. The demo fills only an empty one") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if strings.Contains(r.stderr, "listening") || strings.Contains(r.stdout, "http://") {
		t.Errorf("it serves: %s%s", r.stdout, r.stderr)
	}
}
