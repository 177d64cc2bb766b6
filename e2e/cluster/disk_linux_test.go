package cluster_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// diskSize is that of the small disk; the service itself needs a tenth of it.
const diskSize = "48m"

// TestTortureDisk fills the disk of the database and the blobs, and frees it
// again.
func TestTortureDisk(t *testing.T) {
	t.Parallel()
	skipOn(t, "postgres")
	disk := smallDisk(t)
	s := newSite(t, plan{Data: filepath.Join(disk, "data")})
	s.start()
	l := newLoad(t, s)
	r := &record{what: "a full disk, sqlite"}
	random := newRand()
	l.start(t.Context())
	for end := time.Now().Add(tortureDuration(2 * time.Second)); time.Now().Before(end); {
		pause(t, between(random, 200*time.Millisecond, time.Second))
		ballast := filepath.Join(disk, "ballast")
		if err := fill(ballast); err != nil {
			t.Fatal(err)
		}
		r.kills++
		pause(t, between(random, 500*time.Millisecond, 1500*time.Millisecond))
		room := time.Now()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		r.awaitReady(t, s, room)
	}
	if l.site.seen.count(503) == 0 {
		t.Error("nobody noticed that the disk was full")
	}
	r.print(t, l, audit(t, l))
}

// smallDisk mounts a small file system, for which the test must be root.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+diskSize)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root can mount a small disk")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A process that another test is starting may still have it open.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, endless{})
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }
