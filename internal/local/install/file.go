package install

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/base/fsync"
)

// ReplaceFile atomically and durably replaces a file: concurrent readers, and
// those after a crash, see either the old or the new content. The old content stays if it
// fails. A symbolic link is replaced, not followed; see hook.resolve.
func ReplaceFile(name string, content []byte, mode fs.FileMode) error {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(replaceFile(root, filepath.Base(name), content, mode), root.Close())
}

// tempPattern matches the files that a crash of replaceFile leaves behind.
const tempPattern = ".whetstone-*.tmp"

// replaceFile is ReplaceFile for a name below root.
func replaceFile(root *os.Root, name string, content []byte, mode fs.FileMode) (err error) {
	dir := path.Dir(name)
	// In the same folder, since a rename works within a file system only. O_EXCL keeps a link
	// that somebody planted from being followed.
	temp := path.Join(dir, ".whetstone-"+rand.Text()+".tmp")
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp) // the first error is the cause
		return err
	}
	// The rename itself must survive a crash, too.
	return fsync.RootDir(root, dir)
}

// fsyncTree calls fsync on all files and folders below root. Without it, a crash soon after a
// rename could leave empty files under their final names.
func fsyncTree(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return fsync.RootDir(root, name)
		}
		f, err := root.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// removeTree removes a folder, also one with read-only parts. A folder without the permission
// to write can't be emptied, e.g. those of Go's module cache.
func removeTree(root *os.Root, dir string) error {
	if root.RemoveAll(dir) == nil {
		return nil
	}
	_ = fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = root.Chmod(name, 0o700) // if this fails, so does RemoveAll
		}
		return nil
	})
	return root.RemoveAll(dir)
}

// exists reports whether there is anything of the name, including a broken link.
func exists(root *os.Root, name string) (bool, error) {
	_, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
