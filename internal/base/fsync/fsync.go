// Package fsync makes directory entries durable. A file that was written and
// renamed survives a loss of power only after an fsync of its directory, too.
package fsync

import (
	"errors"
	"os"
	"runtime"
)

// Dir calls fsync on a directory.
func Dir(path string) error {
	return sync(os.Open(path)) // callers name folders of the operator
}

// RootDir calls fsync on a directory inside root, e.g. "." for root itself.
func RootDir(root *os.Root, dir string) error {
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
