package install

import (
	"errors"
	"maps"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/fsync"
)

// Remove deletes a skill and its record in the lock file. If it was edited, Remove
// returns an *EditedError and changes nothing; with force it keeps the folder as a
// backup and returns its path. A folder with .env*, .git or node_modules of the user
// is always kept so. A skill that is not in the lock file is fault.NotFound.
//
// The folder goes first: after a crash the skill is missing, and can be removed again.
func (f *Folder) Remove(name string, force bool) (backup string, err error) {
	defer fault.Wrap(&err, "uninstall %s", name)
	r, known := f.skills[name]
	if !known {
		return "", fault.New(fault.NotFound, "%s is not installed in %s", name, f.root.Name())
	}
	found, err := scan(f.root, name, r.Files)
	if err != nil {
		return "", err
	}
	state := found.state(r.Files)
	if state.Condition == Modified && !force {
		return "", &EditedError{Name: name, Edits: state.Edits}
	}
	// Never delete what can't be downloaded again.
	kept := ""
	if state.Condition == Modified || len(found.userOwned) > 0 {
		if kept, err = f.newBackupPath(name); err != nil {
			return "", err
		}
		backup = filepath.Join(f.root.Name(), filepath.FromSlash(kept))
	}
	f.onStep("move away")
	if found.present {
		if err := f.root.Rename(name, oldDir); err != nil {
			return "", err
		}
	}
	f.onStep("lock file")
	// Only then may the lock file forget it.
	if err := errors.Join(fsync.RootDir(f.root, stateName), fsync.RootDir(f.root, ".")); err != nil {
		return "", err
	}
	skills := maps.Clone(f.skills)
	delete(skills, name)
	if err := f.writeLock(skills); err != nil {
		return "", err
	}
	f.onStep("dispose")
	return backup, f.retire(kept)
}
