//go:build unix

package flock_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/flock"
)

// TestRelease releases a lock whose descriptor another process has a copy of, as a child
// has between fork and exec.
func TestRelease(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	try := func(f *os.File, want bool) {
		t.Helper()
		if ok, err := flock.Try(f); ok != want || err != nil {
			t.Fatalf("locked %t, %v, want %t", ok, err, want)
		}
	}
	first, second := open(), open()
	try(first, true)
	try(second, false)
	child, err := syscall.Dup(int(first.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if err := flock.Release(first); err != nil {
		t.Fatal(err)
	}
	try(second, true)
	if err := flock.Release(second); err != nil {
		t.Fatal(err)
	}
}
