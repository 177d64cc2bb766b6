package taskpkg

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// After the oracle or the agent, the verifier runs in a new instance of the image: what
// they installed or planted isn't there, except for the folders with the result.

// verifierImageDir is the folder for what the verifier changes in the image.
const verifierImageDir = "verifier-image"

// workFolders are carried over to the verifier, beside the working folder and the
// folders that task.toml names.
var workFolders = []string{"app", "workspace"}

// systemFolders are not carried over where the working folder is "/": the verifier uses
// programs in them. Everything else at the top is.
var systemFolders = []string{
	"bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "opt", "proc", "root", "run", "sbin",
	"sys", "tmp", "usr", "var",
}

// renewImage gives the verifier a new root of the image, and moves the folders that
// hold the result into it.
func (t *trial) renewImage(ctx context.Context) error {
	t.worked = t.imageRoot
	folders, err := t.carriedFolders()
	if err != nil {
		return err
	}
	if t.imageRoot, err = t.image.Root(ctx, filepath.Join(t.dir, verifierImageDir)); err != nil {
		return err
	}
	t.carried = nil
	for _, folder := range folders {
		if err := t.carry(folder); err != nil {
			return err
		}
	}
	return t.restoreBasics() // in those that PATH leads to
}

// returnImage gives the next step the root in which the step before worked, with the
// result as the verifier left it.
func (t *trial) returnImage() error {
	if t.worked == nil {
		return nil
	}
	from, to := t.imageRoot.Written(), t.worked.Written()
	for _, name := range t.carried {
		if _, err := os.Lstat(filepath.Join(from, name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := move(from, to, name); err != nil {
			return err
		}
	}
	t.imageRoot, t.worked = t.worked, nil
	return sandbox.Remove(filepath.Join(t.dir, verifierImageDir))
}

// carriedFolders returns the paths, without a leading slash, that are carried over.
// None is within another one, since each is moved as a whole.
func (t *trial) carriedFolders() (folders []string, err error) {
	all := slices.Clone(workFolders)
	for _, name := range append(t.settings.Verifier.Carry, t.imageWorkDir()) {
		if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name != "" {
			all = append(all, name)
		}
	}
	if t.imageWorkDir() == "/" {
		top, err := os.ReadDir(t.worked.Written())
		if err != nil {
			return nil, err
		}
		for _, entry := range top {
			if !slices.Contains(systemFolders, entry.Name()) {
				all = append(all, entry.Name())
			}
		}
	}
	slices.Sort(all) // a folder before those in it
	for _, name := range all {
		if !slices.ContainsFunc(folders, func(f string) bool { return isWithin(name, f) }) {
			folders = append(folders, name)
		}
	}
	return folders, nil
}

// carry moves a folder to the verifier's root. Hidden files of the home folder stay
// behind: shells and interpreters load settings from them.
func (t *trial) carry(folder string) error {
	from, to := t.worked.Written(), t.imageRoot.Written()
	if !onlyDirs(from, folder) {
		return nil // it is the image's, or behind a link
	}
	names := []string{folder}
	if home := strings.TrimPrefix(path.Clean(t.env["HOME"]), "/"); isWithin(home, folder) {
		if home != folder {
			return nil // e.g. "/" or a parent of the home
		}
		entries, err := os.ReadDir(filepath.Join(from, folder))
		if err != nil {
			return err
		}
		names = nil
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), ".") {
				names = append(names, path.Join(folder, entry.Name()))
			}
		}
	}
	for _, name := range names {
		if err := move(from, to, name); err != nil {
			return err
		}
		t.carried = append(t.carried, name)
	}
	return nil
}

// onlyDirs reports whether a path below root consists of real folders. A program could
// have planted a link that leads out of the root.
func onlyDirs(root, name string) bool {
	p := root
	for part := range strings.SplitSeq(name, "/") {
		p = filepath.Join(p, part)
		if info, err := os.Lstat(p); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// move moves a file or folder from one root to the same path of another one.
func move(from, to, name string) error {
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	source := filepath.Join(from, name)
	if info, err := os.Lstat(source); err == nil && info.IsDir() {
		// a folder without permissions cannot be moved
		if err := os.Chmod(source, info.Mode().Perm()|0o700); err != nil {
			return err
		}
	}
	return os.Rename(source, filepath.Join(to, name))
}
