// Package workdir reads what a sandboxed program left in its working folder, so that a
// check can look at it, and finds out which files the program changed. It owns no
// tables.
package workdir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Limits of what is read: it is kept in memory and passed to an assertion. A real
// result is far smaller.
const (
	maxFiles     = 1_000
	maxFile      = 64 << 10
	maxFileBytes = 1 << 20
)

// ReadFiles reads the regular files that a command left, truncated, by path. It
// follows no symbolic links, which could lead out of the folder.
func ReadFiles(dir string) (_ map[string]string, err error) {
	if err := os.Chmod(dir, 0o700); err != nil { // the command may have removed the permissions
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	all, left := map[string]string{}, maxFileBytes
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if len(all) == maxFiles {
			return fs.SkipAll
		}
		if err == nil && entry.Type().IsRegular() { // unreadable folders are left out
			content := readHead(root, path, min(maxFile, left))
			all[path], left = content, left-len(content)
		}
		return nil
	})
	return all, err
}

// readHead reads up to size bytes of a file; an unreadable one is empty.
func readHead(root *os.Root, path string, size int) string {
	f, err := root.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	content, _ := io.ReadAll(io.LimitReader(f, int64(size))) // as much as there is
	return strings.ToValidUTF8(string(content), "\uFFFD")
}
