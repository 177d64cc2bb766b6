// Package files locks files between processes and makes directory entries durable: a
// file that was written and renamed survives a loss of power only after an fsync of its
// directory, too.
package files

import (
	"errors"
	"os"
	"runtime"
)

// SyncDir calls fsync on a directory.
func SyncDir(path string) error {
	return sync(os.Open(path)) // callers name folders of the operator
}

// SyncRootDir calls fsync on a directory inside root, e.g. "." for root itself.
func SyncRootDir(root *os.Root, dir string) error {
	return sync(root.Open(dir))
}

func sync(dir *os.File, err error) error {
	if err != nil {
		return err
	}
	if runtime.GOOS == "windows" { // cannot, and need not, fsync a directory
		return dir.Close()
	}
	return errors.Join(dir.Sync(), dir.Close())
}
