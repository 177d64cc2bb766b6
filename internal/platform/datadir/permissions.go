package datadir

import (
	"os"
	"path/filepath"
)

// RestrictPermissions takes the permissions of group and others from the named
// files and folders in a data folder, and from the lock file. It leaves the
// data folder itself alone, since an operator may share that on purpose; the
// doctor warns of it.
func RestrictPermissions(dir string, names ...string) {
	for _, name := range append(names, lockFile) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path) // a symbolic link may lead out of the folder
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		_ = os.Chmod(path, info.Mode().Perm()&^0o077) // fails for files of another user
	}
}
