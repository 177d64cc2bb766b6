package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/fsync"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// The parts of the state folder. One skill is swapped at a time.
const (
	newDir      = stateName + "/new"          // the new version, until it is in place
	oldDir      = stateName + "/old"          // the old one, until the new one is
	backupsDir  = stateName + "/backups"      // edited copies that were replaced
	journalPath = stateName + "/journal.json" // the swap in progress; see journal
)

// An EditedError reports that an installation would overwrite edits, or a folder
// that was not installed by us. The caller shows the edits and asks; a second call with force
// overwrites them.
type EditedError struct {
	Name  string
	Edits []Edit
	// Foreign reports that it was not installed by us at all.
	Foreign bool
}

func (e *EditedError) Error() string {
	if e.Foreign {
		return fmt.Sprintf("%s is there already and was not installed by whetstone", e.Name)
	}
	return fmt.Sprintf("%s was edited since it was installed", e.Name)
}

// Install replaces a skill with a package, and writes the record with the
// package's files to the lock file. Files that are not in the package are
// removed; .env*, .git and node_modules of the user stay. If the old version was
// edited, or was not installed by us, Install returns an *EditedError and changes
// nothing. With force it keeps the old folder as a backup and returns its path.
// A folder that has the package's content already is not changed.
func (f *Folder) Install(
	ctx context.Context, name string, pkg *skillpkg.Package, r Record, force bool,
) (backup string, err error) {
	defer fault.Wrap(&err, "install %s", name)
	if err := CheckName(name); err != nil {
		return "", err
	}
	// macOS and Windows ignore case by default.
	for other := range f.skills {
		if other != name && strings.EqualFold(other, name) {
			return "", fault.New(fault.Conflict,
				"%s is installed, and some systems would take %s for the same folder", other, name)
		}
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
	// The record may still be new, e.g. for another version with the same files.
	if found.matches(pkg) {
		return "", f.Put(name, r)
	}
	state := found.state(old.Files)
	if state.Condition == Modified && !force {
		return "", &EditedError{Name: name, Edits: state.Edits, Foreign: !known}
	}
	j := journal{Name: name, Record: r}
	keep := state.Condition == Modified
	if known {
		var blocked bool
		j.Carry, blocked = found.carry(r.Files)
		keep = keep || blocked
	}
	if keep {
		if j.Backup, err = f.newBackupPath(name); err != nil {
			return "", err
		}
		backup = filepath.Join(f.root.Name(), filepath.FromSlash(j.Backup))
	}
	// The folder is then as before, or as after, but not in between.
	if err := f.replace(ctx, pkg, j); err != nil {
		return "", errors.Join(err, f.recover())
	}
	return backup, nil
}

// Restore is Install of what the lock file says: it never writes the lock file, and
// refuses a package that has other files than the record. It is for CI and new machines: what
// is installed is what was committed, or nothing.
func (f *Folder) Restore(ctx context.Context, name string, pkg *skillpkg.Package, force bool) (backup string, err error) {
	r, ok := f.skills[name]
	if !ok {
		return "", fault.New(fault.NotFound, "%s is not in the lock file", name)
	}
	files := map[string]string{}
	for _, file := range pkg.Installed() {
		files[file.Path] = file.SHA256
	}
	if !maps.Equal(files, r.Files) {
		return "", fault.New(fault.Conflict, "the lock file has other files of %s %s than the version itself", name, r.Version)
	}
	return f.Install(ctx, name, pkg, r, force)
}

// matches reports whether the folder has the content of the package. Windows has no permission
// to execute.
func (f scanResult) matches(pkg *skillpkg.Package) bool {
	installed := pkg.Installed()
	if !f.present || len(f.files) != len(installed) {
		return false
	}
	for _, file := range installed {
		installedFile, ok := f.files[file.Path]
		if !ok || installedFile.hash != file.SHA256 {
			return false
		}
		if installedFile.executable != (file.Mode&0o111 != 0) && runtime.GOOS != "windows" {
			return false
		}
	}
	return true
}

// carry lists the user's files to keep, and reports whether new files block some
// of them.
func (f scanResult) carry(files map[string]string) (paths []string, blocked bool) {
	for _, p := range f.userOwned {
		if overlaps(p, files) {
			blocked = true
		} else {
			paths = append(paths, p)
		}
	}
	return paths, blocked
}

// newBackupPath returns an unused path for a backup, e.g.
// ".whetstone/backups/pdf-20270102T030405Z". A second backup within a second gets a number.
func (f *Folder) newBackupPath(name string) (string, error) {
	if err := f.root.MkdirAll(backupsDir, 0o755); err != nil {
		return "", err
	}
	stem := path.Join(backupsDir, name+"-"+time.Now().UTC().Format("20060102T150405Z"))
	for n := 1; ; n++ {
		backup := stem
		if n > 1 {
			backup = fmt.Sprintf("%s-%d", stem, n)
		}
		found, err := exists(f.root, backup)
		if err != nil || !found {
			return backup, err
		}
	}
}

// A journal describes a swap in progress. While it exists, the swap is neither
// complete nor rolled back. It is written once everything that the swap needs is on the disk.
type journal struct {
	Name   string `json:"name"`
	Record Record `json:"record"`
	// Carry are the paths to move from the old folder into the new one.
	Carry []string `json:"carry,omitempty"`
	// Backup is the new path of the old folder; "" to remove it.
	Backup string `json:"backup,omitempty"`
}

// replace unpacks the new version and swaps it with the old one.
func (f *Folder) replace(ctx context.Context, pkg *skillpkg.Package, j journal) error {
	f.onStep("unpack")
	if err := f.unpack(ctx, pkg); err != nil {
		return err
	}
	f.onStep("journal")
	content, err := encodeJSON(j)
	if err != nil {
		return err
	}
	if err := replaceFile(f.root, journalPath, content, 0o644); err != nil {
		return err
	}
	return f.swap(j)
}

// newDir doesn't exist: Open has removed what a crash left.
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
		err = fsyncTree(dst)
	}
	return errors.Join(err, dst.Close())
}

// swap renames the old folder away and the new one in its place. Until the second
// rename a crash is rolled back, after it the swap is completed. The folder is
// missing for a moment, but never incomplete.
func (f *Folder) swap(j journal) error {
	f.onStep("move away")
	found, err := exists(f.root, j.Name)
	if err != nil {
		return err
	}
	if found {
		if err := f.root.Rename(j.Name, oldDir); err != nil {
			return err
		}
	}
	for _, p := range j.Carry {
		f.onStep("carry")
		if err := f.carry(p, oldDir, newDir); err != nil {
			return err
		}
	}
	f.onStep("move in")
	if err := f.root.Rename(newDir, j.Name); err != nil {
		return err
	}
	// The rename must be durable before the lock file names the new version.
	if err := errors.Join(fsync.RootDir(f.root, stateName), fsync.RootDir(f.root, ".")); err != nil {
		return err
	}
	return f.finish(j)
}

// carry moves a file of the user from one folder to the other. It is a rename: node_modules
// would take minutes to copy.
func (f *Folder) carry(p, from, to string) error {
	if err := f.root.MkdirAll(path.Join(to, path.Dir(p)), 0o755); err != nil {
		return err
	}
	return f.root.Rename(path.Join(from, p), path.Join(to, p))
}

// finish completes a swap once the new folder is in place. It is idempotent. The journal goes
// last: until then recover repeats the rest.
func (f *Folder) finish(j journal) error {
	f.onStep("lock file")
	if err := f.Put(j.Name, j.Record); err != nil {
		return err
	}
	f.onStep("dispose")
	if err := f.retire(j.Backup); err != nil {
		return err
	}
	f.onStep("end")
	return f.root.Remove(journalPath)
}

// retire removes the old folder, if there is one, or makes it a backup. Backups are never
// deleted: only the user knows whether they are needed.
func (f *Folder) retire(backup string) error {
	found, err := exists(f.root, oldDir)
	if err != nil || !found {
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
