// Package install keeps skills in the folder where an agent looks for them.
// It puts a version in the place of another at once or not at all, notices
// what somebody has edited since, and writes down what is there in a lock
// file. It knows no network, and owns no tables.
package install

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/flock"
)

// stateName is where a Folder keeps what is not the agents' business: beside
// the skills, so that a rename can move it, and hidden from version control.
const stateName = ".whetstone"

// A Folder is a folder of skills, for this process alone to change until it
// is closed.
type Folder struct {
	root   *os.Root
	busy   *os.File
	skills map[string]Record
	// before is told of each step that a crash may come before; for tests.
	before func(step string)
}

// Open takes a folder, making it if need be, and finishes or undoes what a
// crash has left half done. If another process has it, Open calls waiting
// once and waits for as long as ctx allows.
func Open(ctx context.Context, dir string, waiting func()) (_ *Folder, err error) {
	defer fault.Wrap(&err, "skills folder %s", dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{root: root, before: func(string) {}}
	defer func() {
		if err != nil {
			_ = f.Close() // the first error tells more
		}
	}()
	if err := f.take(ctx, waiting); err != nil {
		return nil, err
	}
	if f.skills, err = ReadLock(dir); err != nil {
		return nil, err
	}
	if err := f.recover(); err != nil {
		return nil, err
	}
	return f, f.clearTemps()
}

// Close lets others have the folder.
func (f *Folder) Close() error {
	err := f.root.Close()
	if f.busy != nil {
		err = errors.Join(err, f.busy.Close())
	}
	return err
}

// pollEvery is how often a folder that another process has is tried.
const pollEvery = 100 * time.Millisecond

func (f *Folder) take(ctx context.Context, waiting func()) (err error) {
	if err := f.root.MkdirAll(stateName, 0o755); err != nil {
		return err
	}
	if err := f.root.WriteFile(stateName+"/.gitignore", []byte("*\n"), 0o644); err != nil {
		return err
	}
	if f.busy, err = f.root.OpenFile(stateName+"/busy", os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		ok, err := flock.Try(f.busy)
		if ok || err != nil {
			return err
		}
		if tries == 0 {
			waiting()
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Conflict, "another whetstone works in this folder").Because(ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

// clearTemps removes what crashes in the middle of a write have left.
func (f *Folder) clearTemps() error {
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

// Skills returns what the lock file says, by the names of the skills.
func (f *Folder) Skills() map[string]Record { return maps.Clone(f.skills) }

// Put changes what the lock file says of a skill, and nothing else.
func (f *Folder) Put(name string, r Record) (err error) {
	defer fault.Wrap(&err, "lock file")
	if err := CheckName(name); err != nil {
		return err
	}
	skills := maps.Clone(f.skills)
	skills[name] = r
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
