package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/flock"
	"github.com/whetstone-dev/whetstone/internal/host"
)

// lockFile is the name of the file in the data folder that `serve` holds a lock
// on, and that says which process does.
const lockFile = "serve.lock"

// A server is what the lock file says of the process that holds it.
type server struct {
	PID    int    `json:"pid"`
	Listen string `json:"listen"` // where it listens; "" while it starts
	URL    string `json:"url"`    // where it is reached
}

func (s server) String() string {
	switch {
	case s.PID == 0:
		return "another process"
	case s.Listen == "":
		return fmt.Sprintf("process %d", s.PID)
	}
	return fmt.Sprintf("process %d at %s", s.PID, s.Listen)
}

// A dataLock keeps other servers from the same data. The kernel releases it
// when the process ends, however it ends. The zero dataLock holds nothing.
type dataLock struct{ file *os.File }

func (l dataLock) held() bool { return l.file != nil }

// lockPatience is how long a start waits for a lock: a doctor holds it for a
// moment, and a process that is being replaced until it has ended.
const lockPatience = time.Second

// lockData locks what only one process may write: SQLite and blobs in files.
// Processes that have neither may share a data folder; the first of those that
// answer requests gets the lock, and with it the hooks of the repositories. The
// others have none, which is not an error.
func lockData(ctx context.Context, c config.Config) (dataLock, error) {
	exclusive, hooks := needsData(c), c.Has(config.Web) && c.Repohost == string(host.Git)
	if !exclusive && !hooks {
		return dataLock{}, nil
	}
	if err := c.MakeData(); err != nil {
		return dataLock{}, err
	}
	closeToOthers(c.Data)
	path := filepath.Join(c.Data, lockFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator's own
	if err != nil {
		return dataLock{}, err
	}
	locked, err := waitForLock(ctx, file, exclusive)
	if err == nil && locked {
		lock := dataLock{file}
		lock.note(server{PID: os.Getpid()})
		return lock, nil
	}
	if err == nil && exclusive {
		err = fault.New(fault.Conflict, "the data folder %s is in use by another `whetstone serve` (%s): stop that one, or give this one a folder of its own with --data. "+
			"Several processes share data only with both --database-url (PostgreSQL) and --blob-url (S3)", c.Data, readServer(path))
	}
	return dataLock{}, errors.Join(err, file.Close())
}

// needsData reports whether the process keeps data in its data folder, which
// no other may do then.
func needsData(c config.Config) bool {
	return c.DatabaseURL == "" || strings.HasPrefix(string(c.DatabaseURL), "sqlite:") || c.BlobURL == ""
}

func waitForLock(ctx context.Context, file *os.File, patient bool) (bool, error) {
	for deadline := time.Now().Add(lockPatience); ; {
		ok, err := flock.Try(file)
		if ok || err != nil || !patient || time.Now().After(deadline) {
			return ok, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// readServer reads what the holder of a lock noted.
func readServer(path string) (s server) {
	if raw, err := os.ReadFile(path); err == nil { //nolint:gosec // the operator's own
		_ = json.Unmarshal(raw, &s) // what cannot be read is "another process"
	}
	return s
}

// note says who holds the lock. It is for people, and a full disk must not keep
// a service from starting.
func (l dataLock) note(s server) {
	raw, err := json.Marshal(s)
	if err != nil || !l.held() || l.file.Truncate(0) != nil {
		return
	}
	_, _ = l.file.WriteAt(append(raw, '\n'), 0)
}

func (l dataLock) release() {
	if l.held() {
		_ = l.file.Truncate(0)
		_ = l.file.Close()
	}
}

// runningServer tells which server holds the data folder, if one does.
func runningServer(data string) (server, bool) {
	path := filepath.Join(data, lockFile)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return server{}, false
	}
	defer file.Close()
	if ok, err := flock.Try(file); ok || err != nil {
		return server{}, false
	}
	return readServer(path), true
}

// closeToOthers takes the rights of other users from what the service makes in
// its data folder. Of the folder itself, and of repositories that people may
// push to, the doctor warns only: an operator may share them on purpose.
func closeToOthers(data string) {
	const database = "whetstone.db"
	for _, name := range []string{database, database + "-wal", database + "-shm", database + ".lock", "blobs", keyFile, lockFile} {
		path := filepath.Join(data, name)
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		_ = os.Chmod(path, info.Mode().Perm()&^0o077) // not ours if this fails
	}
}
