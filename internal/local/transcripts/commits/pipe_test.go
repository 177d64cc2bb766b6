//go:build unix

package commits_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/local/transcripts/commits"
)

// TestNamedPipe: reading a file of a hostile repository never ends.
func TestNamedPipe(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"HEAD", "config", "packed-refs", "logs/HEAD", "objects/pack/x.idx"} {
		r := newRepository(t)
		hash := r.commit("work")
		path := filepath.Join(r.dir, ".git", filepath.FromSlash(name))
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := commits.Fates(t.Context(), r.dir, []commits.Commit{made(hash)}); got[0] != commits.Unknown {
			t.Errorf("%s: %v", name, got)
		}
	}
}
