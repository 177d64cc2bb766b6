package release_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleaseRefuses calls scripts/release with what it must not build.
func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "dist")
	for _, c := range []struct{ args, want string }{
		{"", "the version must be like v1.2.3"},
		{"--untagged --unsigned 1.2.3", "the version must be like v1.2.3"},
		{"--untagged --unsigned v1.2", "the version must be like v1.2.3"},
		{"--untagged --unsigned v1.2.3;id", "the version must be like v1.2.3"},
		{"--untagged --unsigned --platforms plan9/amd64 v1.2.3", "unknown platform plan9/amd64"},
		{"--untagged --unsigned --out / v1.2.3", "/ exists"},
		{"--untagged v1.2.3", "WHETSTONE_RELEASE_KEY names no key"},
		{"--unsigned v0.0.0-no.such.tag", ""}, // changes, no tag, or no repository at all
		{"--sign v1.2.3", "unknown flag --sign"},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/release"), append([]string{"--out", out}, strings.Fields(c.args)...)...)
		cmd.Env = append(cmd.Environ(), "WHETSTONE_RELEASE_KEY=")
		if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(said), c.want) {
			t.Errorf("%s: %v, want %q in\n%s", c.args, err, c.want, said)
		}
	}
}
