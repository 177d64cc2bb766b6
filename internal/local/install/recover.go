package install

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/fsync"
)

// recover rolls an interrupted installation back or forward, by its journal. The
// new folder still in the state folder means back. A crash during recover itself is recovered
// by the next one: every step is idempotent.
func (f *Folder) recover() (err error) {
	defer fault.Wrap(&err, "recover")
	j, err := f.readJournal()
	if errors.Is(err, fs.ErrNotExist) {
		return f.cleanUp()
	}
	if err != nil {
		return err
	}
	unpacked, err := exists(f.root, newDir)
	if err != nil {
		return err
	}
	if unpacked {
		return f.rollBack(j)
	}
	return f.finish(j)
}

// cleanUp removes the leftovers of an installation that has no journal yet. Nothing of the
// user's was moved yet, so there is nothing to restore.
func (f *Folder) cleanUp() error {
	found, err := exists(f.root, oldDir)
	if err != nil {
		return err
	}
	if found { // not by us: keep it as a backup
		backup, err := f.newBackupPath("unknown")
		if err != nil {
			return err
		}
		if err := f.retire(backup); err != nil {
			return err
		}
	}
	return removeTree(f.root, newDir)
}

// readJournal reads and validates the journal, which is as untrusted as the lock
// file. A path in it that leads out of the folder could make a recovery move files of the
// user's.
func (f *Folder) readJournal() (j journal, err error) {
	raw, err := f.root.ReadFile(journalPath)
	if err != nil {
		return j, err
	}
	err = json.Unmarshal(raw, &j)
	outside := func(p string) bool { return !filepath.IsLocal(p) }
	if err != nil || CheckName(j.Name) != nil || slices.ContainsFunc(j.Carry, outside) ||
		j.Backup != "" && path.Dir(j.Backup) != backupsDir {
		return j, fault.New(fault.Conflict, "%s is not what whetstone writes there; remove it", journalPath).Because(err)
	}
	return j, nil
}

// rollBack restores the old folder. It is idempotent.
func (f *Folder) rollBack(j journal) error {
	moved, err := exists(f.root, oldDir)
	if err != nil {
		return err
	}
	if moved {
		if err := f.undoMoves(j); err != nil {
			return err
		}
	}
	// Without its journal the new folder counts as incomplete.
	if err := f.root.Remove(journalPath); err != nil {
		return err
	}
	return removeTree(f.root, newDir)
}

// The user's files go back first: without them the old folder would not be as it was.
func (f *Folder) undoMoves(j journal) error {
	for _, p := range j.Carry {
		carried, err := exists(f.root, path.Join(newDir, p))
		if err != nil {
			return err
		}
		if carried {
			if err := f.carry(p, newDir, oldDir); err != nil {
				return err
			}
		}
	}
	found, err := exists(f.root, j.Name)
	if err != nil {
		return err
	}
	if found { // the user has put another one there meanwhile
		backup, err := f.newBackupPath(j.Name)
		if err != nil {
			return err
		}
		return f.retire(backup)
	}
	if err := f.root.Rename(oldDir, j.Name); err != nil {
		return err
	}
	return fsync.RootDir(f.root, ".")
}
