package install

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// The parts of the state folder. One skill is swapped at a time.
const (
	newDir     = stateName + "/new"          // the new version, until it is in place
	oldDir     = stateName + "/old"          // the old one, until the new one is
	backupsDir = stateName + "/backups"      // edited copies that were replaced
	journalAt  = stateName + "/journal.json" // what is being done; see swap
)

// An EditedError says that something stands in the place of a skill that an
// installation would destroy.
type EditedError struct {
	Name  string
	Edits []Edit
	// Foreign says that it was not installed from here at all.
	Foreign bool
}

func (e *EditedError) Error() string {
	if e.Foreign {
		return fmt.Sprintf("%s is there already and was not installed by whetstone", e.Name)
	}
	return fmt.Sprintf("%s was edited since it was installed", e.Name)
}

// Install puts a skill in its place, whatever version stands there, and
// writes the record with the package's files to the lock file. Files that are
// not in the package are gone then; .env*, .git and node_modules of the user
// stay. If the old version was edited, or is none of ours, Install returns an
// *EditedError and changes nothing, except with force: then it keeps the old
// folder as a backup and returns where. A folder that has the package's
// content already is taken as it is.
func (f *Folder) Install(ctx context.Context, name string, pkg *skillpkg.Package, r Record, force bool) (backup string, err error) {
	defer fault.Wrap(&err, "install %s", name)
	if err := f.checkName(name); err != nil {
		return "", err
	}
	old, known := f.skills[name]
	found, err := scan(f.root, name, old.Files)
	if err != nil {
		return "", err
	}
	r.Files = map[string]string{}
	for _, file := range pkg.Installed() {
		r.Files[file.Path] = file.SHA256
	}
	if found.is(pkg) {
		return "", f.Put(name, r)
	}
	state := found.state(old.Files)
	if state.Condition == Modified && !force {
		return "", &EditedError{Name: name, Edits: state.Edits, Foreign: !known}
	}
	j := journal{Name: name, Record: r}
	keep := state.Condition == Modified
	if known {
		var stuck bool
		j.Carry, stuck = found.carry(r.Files)
		keep = keep || stuck
	}
	if keep {
		if j.Backup, err = f.freeBackup(name); err != nil {
			return "", err
		}
		backup = filepath.Join(f.root.Name(), filepath.FromSlash(j.Backup))
	}
	if err := f.replace(ctx, pkg, j); err != nil {
		return "", errors.Join(err, f.recover())
	}
	return backup, nil
}

// checkName keeps two skills out of one folder where case does not matter.
func (f *Folder) checkName(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	for other := range f.skills {
		if other != name && strings.EqualFold(other, name) {
			return fault.New(fault.Conflict, "%s is installed, and some systems would take %s for the same folder", other, name)
		}
	}
	return nil
}

// is reports whether the folder holds what the package would put there.
func (f finding) is(pkg *skillpkg.Package) bool {
	installed := pkg.Installed()
	if !f.there || len(f.files) != len(installed) {
		return false
	}
	for _, file := range installed {
		there, ok := f.files[file.Path]
		if !ok || there.hash != file.SHA256 {
			return false
		}
		if there.executable != (file.Mode&0o111 != 0) && runtime.GOOS != "windows" {
			return false
		}
	}
	return true
}

// carry lists what the user needs beside the new files, and reports whether
// some of it is in their way.
func (f finding) carry(files map[string]string) (paths []string, stuck bool) {
	for _, p := range f.foreign {
		if overlaps(p, files) {
			stuck = true
		} else {
			paths = append(paths, p)
		}
	}
	return paths, stuck
}

// freeBackup finds a name for a backup.
func (f *Folder) freeBackup(name string) (string, error) {
	if err := f.root.MkdirAll(backupsDir, 0o755); err != nil {
		return "", err
	}
	stem := path.Join(backupsDir, name+"-"+time.Now().UTC().Format("20060102T150405Z"))
	for n := 1; ; n++ {
		backup := stem
		if n > 1 {
			backup = fmt.Sprintf("%s-%d", stem, n)
		}
		there, err := exists(f.root, backup)
		if err != nil || !there {
			return backup, err
		}
	}
}

// A journal is what is about to happen to a skill. While it stands in the
// state folder, the swap is neither done nor undone.
type journal struct {
	Name   string `json:"name"`
	Record Record `json:"record"`
	// Carry are the paths that move from the old folder into the new one.
	Carry []string `json:"carry,omitempty"`
	// Backup is where the old folder goes; "" if it is removed.
	Backup string `json:"backup,omitempty"`
}

// replace unpacks the new version and swaps it with the old one.
func (f *Folder) replace(ctx context.Context, pkg *skillpkg.Package, j journal) error {
	f.before("unpack")
	if err := f.unpack(ctx, pkg); err != nil {
		return err
	}
	f.before("journal")
	content, err := encodeJSON(j)
	if err != nil {
		return err
	}
	if err := replaceFile(f.root, journalAt, content, 0o644); err != nil {
		return err
	}
	return f.swap(j)
}

func (f *Folder) unpack(ctx context.Context, pkg *skillpkg.Package) error {
	if err := f.root.Mkdir(newDir, 0o755); err != nil {
		return err
	}
	dst, err := f.root.OpenRoot(newDir)
	if err != nil {
		return err
	}
	err = skillpkg.Unpack(ctx, pkg, dst)
	if err == nil {
		err = syncTree(dst)
	}
	return errors.Join(err, dst.Close())
}

// swap moves the old folder away and the new one in its place. Up to the
// second move a crash is undone, from there on it is finished: in between,
// the folder is missing for a moment, but never half there.
func (f *Folder) swap(j journal) error {
	f.before("move away")
	there, err := exists(f.root, j.Name)
	if err != nil {
		return err
	}
	if there {
		if err := f.root.Rename(j.Name, oldDir); err != nil {
			return err
		}
	}
	for _, p := range j.Carry {
		f.before("carry")
		if err := f.carry(p, oldDir, newDir); err != nil {
			return err
		}
	}
	f.before("move in")
	if err := f.root.Rename(newDir, j.Name); err != nil {
		return err
	}
	// The lock file must not speak of the new version before it is in place.
	if err := errors.Join(syncDir(f.root, stateName), syncDir(f.root, ".")); err != nil {
		return err
	}
	return f.finish(j)
}

// carry moves a file of the user from one folder to the other.
func (f *Folder) carry(p, from, to string) error {
	if err := f.root.MkdirAll(path.Join(to, path.Dir(p)), 0o755); err != nil {
		return err
	}
	return f.root.Rename(path.Join(from, p), path.Join(to, p))
}

// finish does what is left when the new folder is in place. It may be done
// twice.
func (f *Folder) finish(j journal) error {
	f.before("lock file")
	if err := f.Put(j.Name, j.Record); err != nil {
		return err
	}
	f.before("dispose")
	if err := f.dispose(j.Backup); err != nil {
		return err
	}
	f.before("end")
	return f.root.Remove(journalAt)
}

// dispose removes the old folder, if there is one, or makes it a backup.
func (f *Folder) dispose(backup string) error {
	there, err := exists(f.root, oldDir)
	if err != nil || !there {
		return err
	}
	if backup == "" {
		return removeTree(f.root, oldDir)
	}
	if err := f.root.MkdirAll(path.Dir(backup), 0o755); err != nil {
		return err
	}
	return f.root.Rename(oldDir, backup)
}
