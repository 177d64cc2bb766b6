package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/flock"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// A Session is one whose transcript waits to be sent. It has no key: the sender uses that of
// the login at that time.
type Session struct {
	Transcript string `json:"transcript"`
	Server     string `json:"server,omitempty"` // "" for that of the last login
	Prompts    bool   `json:"prompts"`          // with the texts of the prompts
}

// A Queue is a folder with a file for each session that waits. Any number of processes may add
// and send; only files are shared.
type Queue struct{ Dir string }

// UserQueue is the queue of the user, in their cache folder. A cache folder may be emptied at
// any time; a session that is lost is queued again by its next turn.
func UserQueue() (Queue, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Queue{}, fault.New(fault.Unavailable, "There is no folder for the queue of sessions: %s", err)
	}
	return Queue{filepath.Join(dir, "whetstone", "hook")}, nil
}

// The ends of the names of files: a session that waits, and one that is being sent.
const (
	waiting = ".json"
	sending = ".sending"
)

// Add queues a session, once however often its turns end.
func (q Queue) Add(s Session) error {
	if err := os.MkdirAll(q.Dir, 0o700); err != nil {
		return err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	// The name is the key that deduplicates.
	hash := sha256.Sum256([]byte(s.Server + "\n" + s.Transcript))
	return install.ReplaceFile(filepath.Join(q.Dir, hex.EncodeToString(hash[:16])+waiting), raw, 0o600)
}

// Len is how many sessions wait.
func (q Queue) Len() int {
	names, _ := filepath.Glob(filepath.Join(q.Dir, "*"+waiting)) // the pattern is valid
	return len(names)
}

// Send calls send for each session that waits. What fails waits for the next time,
// and the errors are returned together. Only one process sends at a time; another
// one waits for it, since a session may have grown in the meantime. It is called for sessions
// in no particular order.
func (q Queue) Send(ctx context.Context, send func(Session) error) (err error) {
	unlock, err := q.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(q.Dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		name, isWaiting := strings.CutSuffix(e.Name(), waiting)
		name, wasSending := strings.CutSuffix(name, sending) // a crash left it
		if !isWaiting && !wasSending {
			continue
		}
		failed = append(failed, q.sendOne(filepath.Join(q.Dir, name), isWaiting, send))
	}
	return errors.Join(failed...)
}

// sendOne sends a session under another name than that which Add writes, so that
// what is added meanwhile is sent again. After a failure it is renamed back, over what Add may
// have written: that is of the same session.
func (q Queue) sendOne(path string, isWaiting bool, send func(Session) error) error {
	if isWaiting {
		if err := os.Rename(path+waiting, path+sending); err != nil {
			return err
		}
	}
	raw, err := os.ReadFile(path + sending)
	if err != nil {
		return err
	}
	var s Session
	if json.Unmarshal(raw, &s) != nil || s.Transcript == "" {
		return os.Remove(path + sending) // of no version that is known
	}
	if _, err := os.Stat(s.Transcript); errors.Is(err, fs.ErrNotExist) {
		return os.Remove(path + sending) // the agent has deleted it
	}
	if err := send(s); err != nil {
		return errors.Join(err, os.Rename(path+sending, path+waiting))
	}
	return os.Remove(path + sending)
}

// lock waits until no other process sends. The file itself stays: removing it would let two
// processes lock two files.
func (q Queue) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(q.Dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(q.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := flock.Try(f)
		if ok {
			return func() { _ = flock.Release(f) }, nil
		}
		if err == nil {
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		return nil, errors.Join(err, f.Close())
	}
}

// Log opens the log file of the hook, to append to it. A large one is started anew. Nobody
// looks after it, so it has to stay small by itself.
func (q Queue) Log() (*os.File, error) {
	if err := os.MkdirAll(q.Dir, 0o700); err != nil {
		return nil, err
	}
	const maxLog = 1 << 20
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if info, err := os.Stat(q.LogPath()); err == nil && info.Size() > maxLog {
		flags |= os.O_TRUNC
	}
	return os.OpenFile(q.LogPath(), flags, 0o600)
}

// LogPath is where the hook logs what went wrong.
func (q Queue) LogPath() string { return filepath.Join(q.Dir, "hook.log") }
