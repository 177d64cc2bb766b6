// Package install installs skills into the folder where an agent looks for them.
// It replaces a version atomically, with a journal for crashes, detects local
// edits, and records what is installed in a lock file. It does not use the
// network, and owns no tables.
package install

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/flock"
)

// stateName is the folder of the journal, backups and temporary files. It is on
// the file system of the skills, so that a rename can move between them, and
// hidden from agents and version control.
const stateName = ".whetstone"

// A Folder is a folder of skills, locked for this process until it is closed. It isn't safe for
// concurrent use. Its skills are what the lock file says.
type Folder struct {
	root   *os.Root
	lock   *os.File
	skills map[string]Record
	// onStep is called before each step, so that tests can crash there.
	onStep func(step string)
}

// Open locks a folder, creates it if necessary, and recovers from a crash: it
// finishes or rolls back an interrupted installation. If another process has the
// lock, Open calls waiting once and waits until ctx ends. All work is done below an os.Root: a
// skill with symbolic links can't lead out of the folder.
func Open(ctx context.Context, dir string, waiting func()) (_ *Folder, err error) {
	defer fault.Wrap(&err, "skills folder %s", dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{root: root, onStep: func(string) {}}
	defer func() {
		if err != nil {
			_ = f.Close() // the first error is the cause
		}
	}()
	if err := f.acquireLock(ctx, waiting); err != nil {
		return nil, err
	}
	if f.skills, err = ReadLock(dir); err != nil {
		return nil, err
	}
	if err := f.recover(); err != nil {
		return nil, err
	}
	return f, f.removeTempFiles()
}

// Close releases the lock.
func (f *Folder) Close() error {
	err := f.root.Close()
	if f.lock != nil {
		err = errors.Join(err, flock.Release(f.lock))
	}
	return err
}

// pollInterval is the time between two attempts to lock a folder.
const pollInterval = 100 * time.Millisecond

// acquireLock takes the lock, which is advisory and ends with the process, so a crash leaves no
// stale lock.
func (f *Folder) acquireLock(ctx context.Context, waiting func()) (err error) {
	if err := f.root.MkdirAll(stateName, 0o755); err != nil {
		return err
	}
	// It ignores itself as well.
	if err := f.root.WriteFile(stateName+"/.gitignore", []byte("*\n"), 0o644); err != nil {
		return err
	}
	if f.lock, err = f.root.OpenFile(stateName+"/busy", os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		ok, err := flock.Try(f.lock)
		if ok || err != nil {
			return err
		}
		if tries == 0 {
			waiting()
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Conflict, "another whetstone works in this folder").Because(ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// removeTempFiles removes temporary files that a crash has left.
func (f *Folder) removeTempFiles() error {
	for _, dir := range []string{"", stateName + "/"} {
		temps, err := fs.Glob(f.root.FS(), dir+tempPattern)
		if err != nil {
			return err
		}
		for _, temp := range temps {
			if err := f.root.Remove(temp); err != nil {
				return err
			}
		}
	}
	return nil
}

// Skills returns the records of the lock file by the names of the skills.
func (f *Folder) Skills() map[string]Record { return maps.Clone(f.skills) }

// Put writes the record of a skill to the lock file, and nothing else. A record that is
// there already is not written. All fields are compared, InstalledAt, too.
func (f *Folder) Put(name string, r Record) (err error) {
	defer fault.Wrap(&err, "lock file")
	if err := CheckName(name); err != nil {
		return err
	}
	if old, ok := f.skills[name]; ok && old.equal(r) {
		return nil
	}
	skills := maps.Clone(f.skills)
	skills[name] = r
	return f.writeLock(skills)
}

// writeLock replaces the lock file. The records in memory change only once the file is durable.
func (f *Folder) writeLock(skills map[string]Record) error {
	content, err := encodeJSON(lockFile{Skills: skills, Version: lockVersion})
	if err != nil {
		return err
	}
	if err := replaceFile(f.root, LockName, content, 0o644); err != nil {
		return err
	}
	f.skills = skills
	return nil
}
