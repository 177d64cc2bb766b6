package install

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// recover brings the folder to the state before or after an installation
// that did not come to its end.
func (f *Folder) recover() (err error) {
	defer fault.Wrap(&err, "recover")
	j, err := f.readJournal()
	if errors.Is(err, fs.ErrNotExist) {
		return f.recoverWithout()
	}
	if err != nil {
		return err
	}
	unpacked, err := exists(f.root, newDir)
	if err != nil {
		return err
	}
	if unpacked {
		return f.undo(j)
	}
	return f.finish(j)
}

// recoverWithout clears up where nothing was swapped yet.
func (f *Folder) recoverWithout() error {
	there, err := exists(f.root, oldDir)
	if err != nil {
		return err
	}
	if there { // which only somebody else can have put there
		backup, err := f.freeBackup("unknown")
		if err != nil {
			return err
		}
		if err := f.dispose(backup); err != nil {
			return err
		}
	}
	return removeTree(f.root, newDir)
}

// readJournal reads the journal with the same distrust as the lock file.
func (f *Folder) readJournal() (j journal, err error) {
	raw, err := f.root.ReadFile(journalAt)
	if err != nil {
		return j, err
	}
	err = json.Unmarshal(raw, &j)
	outside := func(p string) bool { return !filepath.IsLocal(p) }
	if err != nil || CheckName(j.Name) != nil || slices.ContainsFunc(j.Carry, outside) ||
		j.Backup != "" && path.Dir(j.Backup) != backupsDir {
		return j, fault.New(fault.Conflict, "%s is not what whetstone writes there; remove it", journalAt).Because(err)
	}
	return j, nil
}

// undo puts everything back where it was. It may be done twice.
func (f *Folder) undo(j journal) error {
	moved, err := exists(f.root, oldDir)
	if err != nil {
		return err
	}
	if moved {
		if err := f.undoMoves(j); err != nil {
			return err
		}
	}
	// Without its journal the new folder counts as never finished.
	if err := f.root.Remove(journalAt); err != nil {
		return err
	}
	return removeTree(f.root, newDir)
}

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
	there, err := exists(f.root, j.Name)
	if err != nil {
		return err
	}
	if there { // somebody has put another one there meanwhile
		backup, err := f.freeBackup(j.Name)
		if err != nil {
			return err
		}
		return f.dispose(backup)
	}
	if err := f.root.Rename(oldDir, j.Name); err != nil {
		return err
	}
	return syncDir(f.root, ".")
}
