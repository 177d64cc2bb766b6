package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// maxDepth is how deep folders may be nested. A much deeper tree is an attack on
// the code that walks it.
const maxDepth = 100

const (
	// diskInterval is the least time between two checks of the disk limit.
	diskInterval = 250 * time.Millisecond
	// minFreeSpace is the free space below which a disk counts as full.
	minFreeSpace = 1 << 20
	// diskPauseFactor is how many times longer than a check the pause after it
	// is, so that checks of large trees take at most a tenth of the time.
	diskPauseFactor = 10
)

// errOverLimit ends a walk that has exceeded a limit.
var errOverLimit = errors.New("over a limit")

// usage adds up the files in a folder. It returns errOverLimit as soon as they
// exceed a limit. Files may be created and deleted meanwhile.
func usage(dir string, maxBytes int64, maxFiles int) (bytes int64, files int, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrPermission) && os.Chmod(dir, 0o700) == nil { // see withAccess
		root, err = os.OpenRoot(dir)
	}
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	opened := map[string]bool{}
	var count fs.WalkDirFunc
	count = func(p string, d fs.DirEntry, err error) error {
		if files++; files > maxFiles || strings.Count(p, "/") > maxDepth {
			return errOverLimit
		}
		if errors.Is(err, fs.ErrPermission) && !opened[p] {
			opened[p] = true
			return withAccess(root, p, func() error { return fs.WalkDir(root.FS(), p, count) })
		}
		if err != nil { // deleted meanwhile, or not the program's
			return nil //nolint:nilerr // see above
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // deleted meanwhile
		}
		if bytes += allocated(info); bytes > maxBytes {
			return errOverLimit
		}
		return nil
	}
	err = fs.WalkDir(root.FS(), ".", count)
	return bytes, files, err
}

// LargerThan reports whether the files in a folder have more than so many bytes.
func LargerThan(dir string, size int64) bool {
	_, _, err := usage(dir, size, math.MaxInt)
	return errors.Is(err, errOverLimit)
}

// withAccess calls walk while a folder is readable whose permissions a program
// has removed: its files count. A service that is not root runs programs as its
// own user, who owns the folder and may change them.
func withAccess(root *os.Root, p string, walk func() error) error {
	info, err := root.Lstat(p)
	if err != nil || !info.IsDir() || root.Chmod(p, info.Mode().Perm()|0o700) != nil {
		return nil //nolint:nilerr // deleted meanwhile, or not the program's
	}
	err = walk()
	_ = root.Chmod(p, info.Mode().Perm()) // it may be deleted meanwhile
	return err
}

// exceedsDisk reports whether the writable mounts together exceed the limits on
// bytes and files.
func exceedsDisk(mounts []Mount, l Limits) bool {
	// What one folder uses is taken off for the next.
	bytes, files := l.Disk, l.Files
	for _, m := range mounts {
		if !m.Writable || isNested(m, mounts) {
			continue
		}
		b, f, err := usage(m.Source, bytes, files)
		if errors.Is(err, errOverLimit) {
			return true
		}
		bytes, files = bytes-b, files-f
	}
	return false
}

// checkSpace returns an Unavailable error if a program failed while the disk was
// full: that may be the cause, and then says nothing about the program.
func checkSpace(r Result, mounts []Mount) error {
	if r.ExitCode == 0 || r.Exceeded != "" {
		return nil
	}
	for _, m := range mounts {
		if m.Writable && freeSpace(m.Source) < minFreeSpace {
			return fault.New(fault.Unavailable,
				"the disk is full on which the programs of eval cases work; make room, or set --sandbox-scratch")
		}
	}
	return nil
}

// isNested reports whether another writable mount contains this one, so that its
// files must not be counted twice.
func isNested(m Mount, mounts []Mount) bool {
	return slices.ContainsFunc(mounts, func(other Mount) bool {
		if other.Source == m.Source { // the first of them counts
			return other.Target < m.Target && other.Writable
		}
		return other.Writable && within(m.Source, other.Source)
	})
}

// firstUser is the first user ID that programs run as if the service runs as
// root, far from the ranges that systems and container engines use.
const firstUser = 2_000_000_000

// userCount is how many they are.
const userCount = 1 << 16

// chownMounts gives the writable folders to the user that a program runs as.
func chownMounts(mounts []Mount, user int) error {
	for _, m := range mounts {
		if !m.Writable || isNested(m, mounts) {
			continue
		}
		if err := chown(m.Source, user); err != nil {
			return err
		}
	}
	return nil
}

func chown(dir string, user int) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	// WalkDir follows no links, and Lchown changes the link itself.
	return fs.WalkDir(root.FS(), ".", func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.Count(p, "/") > maxDepth {
			return fmt.Errorf("%s: folders are nested too deep", dir)
		}
		return root.Lchown(p, user, user)
	})
}

// Remove deletes a folder that a program may have written to. Unlike
// os.RemoveAll it needs few file descriptors, however deep the program has
// nested its folders, and it deletes folders without permissions.
func Remove(dir string) (err error) {
	err = os.Chmod(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = Empty(root)
	return errors.Join(err, root.Close(), os.Remove(dir))
}

// Empty deletes the content of a folder; see Remove.
func Empty(root *os.Root) error {
	r := remover{root: root}
	// In portions, as a folder may have millions of names.
	for {
		names, err := r.list(".")
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := r.remove(name); err != nil {
				return err
			}
		}
	}
}

// A remover flattens a folder while it deletes it: subfolders are moved to the
// root and deleted later, so that paths never get long.
type remover struct {
	root  *os.Root
	moved int
}

// remove deletes one entry of the root, and moves its subfolders to the root.
func (e *remover) remove(name string) error {
	info, err := e.root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return e.root.Remove(name)
	}
	if err := e.root.Chmod(name, 0o700); err != nil {
		return err
	}
	for {
		members, err := e.list(name)
		if err != nil {
			return err
		}
		if len(members) == 0 {
			return e.root.Remove(name)
		}
		for _, member := range members {
			if err := e.moveUp(filepath.Join(name, member)); err != nil {
				return err
			}
		}
	}
}

// moveUp deletes a file, or moves a folder to the root.
func (e *remover) moveUp(p string) error {
	info, err := e.root.Lstat(p)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return e.root.Remove(p)
	}
	if err := e.root.Chmod(p, 0o700); err != nil {
		return err
	}
	for {
		// The name may be taken by a file of the program: try the next.
		e.moved++
		err := e.root.Rename(p, fmt.Sprintf(".removed-%d", e.moved))
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
}

// list returns the names of up to a thousand entries of a folder.
func (e *remover) list(dir string) ([]string, error) {
	f, err := e.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(1000)
	if len(names) > 0 {
		err = nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}
