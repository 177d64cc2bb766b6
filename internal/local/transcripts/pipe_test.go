//go:build unix

package transcripts

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
		if got := fatesOf(t.Context(), r.dir, []localCommit{made(hash)}); got[0] != fateUnknown {
			t.Errorf("%s: %v", name, got)
		}
	}
}
