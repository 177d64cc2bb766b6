// Package datadir guards the data folder (--data): a lock that keeps a second
// server away from it, permissions that keep other users out, and a reserve of
// free disk space. It owns no tables.
package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/flock"
)

// lockFile is the name of the file in the data folder that `serve` holds an
// advisory lock (flock) on. Its content describes the holder, as a Server.
const lockFile = "serve.lock"

// A Server is the process that holds the lock of a data folder.
type Server struct {
	PID    int    `json:"pid"`
	Listen string `json:"listen"` // where it listens, e.g. "http://127.0.0.1:8080"; "" while it starts
	URL    string `json:"url"`    // the public URL
}

func (s Server) String() string {
	switch {
	case s.PID == 0:
		return "another process"
	case s.Listen == "":
		return fmt.Sprintf("process %d", s.PID)
	}
	return fmt.Sprintf("process %d at %s", s.PID, s.Listen)
}

// A Lock keeps other servers from the same data. The kernel releases it when
// the process ends, however it ends. The zero Lock holds nothing.
type Lock struct{ file *os.File }

// lockTimeout is how long a start waits for the lock: the doctor holds it for a
// moment, and a server that is being replaced until it has shut down.
const lockTimeout = time.Second

// Acquire locks a data folder for this process. If another server holds the
// lock, an exclusive request fails with fault.Conflict after lockTimeout; one
// that is not exclusive returns at once with a Lock that holds nothing.
func Acquire(ctx context.Context, dir string, exclusive bool) (Lock, error) {
	path := filepath.Join(dir, lockFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // the operator's own
	if err != nil {
		return Lock{}, err
	}
	var timeout time.Duration
	if exclusive {
		timeout = lockTimeout
	}
	locked, err := waitForLock(ctx, file, timeout)
	if err == nil && locked {
		lock := Lock{file}
		lock.Describe(Server{PID: os.Getpid()})
		return lock, nil
	}
	if err == nil && exclusive {
		err = fault.New(fault.Conflict, "the data folder %s is in use by another `whetstone serve` (%s): "+
			"stop that one, or give this one a folder of its own with --data. "+
			"Several processes share data only with both --database-url (PostgreSQL) and --blob-url (S3)",
			dir, readServer(path))
	}
	return Lock{}, errors.Join(err, file.Close())
}

// waitForLock polls, since flock has no call with a timeout.
func waitForLock(ctx context.Context, file *os.File, timeout time.Duration) (bool, error) {
	for deadline := time.Now().Add(timeout); ; {
		ok, err := flock.Try(file)
		if ok || err != nil || !time.Now().Before(deadline) {
			return ok, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Held reports whether the lock was acquired and not released.
func (l Lock) Held() bool { return l.file != nil }

// Describe writes into the lock file which server holds the lock. It is only
// for messages to people, so a failure (a full disk) does not stop a start.
func (l Lock) Describe(s Server) {
	raw, err := json.Marshal(s)
	if err != nil || !l.Held() || l.file.Truncate(0) != nil {
		return
	}
	_, _ = l.file.WriteAt(append(raw, '\n'), 0)
}

// Release lets another process acquire the lock.
func (l Lock) Release() {
	if l.Held() {
		_ = l.file.Truncate(0)
		_ = flock.Release(l.file)
	}
}

// Running returns the server that holds the lock of a data folder, and whether
// there is one.
func Running(dir string) (Server, bool) {
	path := filepath.Join(dir, lockFile)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Server{}, false
	}
	defer func() { _ = flock.Release(file) }()
	if ok, err := flock.Try(file); ok || err != nil {
		return Server{}, false
	}
	return readServer(path), true
}

// readServer reads what Describe wrote. An unreadable file is the zero Server,
// "another process".
func readServer(path string) (s Server) {
	if raw, err := os.ReadFile(path); err == nil { // the operator's own
		_ = json.Unmarshal(raw, &s)
	}
	return s
}
