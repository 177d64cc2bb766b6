package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// maxDepth is how deep folders may be nested. Nobody needs more, and what is
// much deeper is made to break whoever walks it.
const maxDepth = 100

const (
	// diskInterval is the least time between two looks at the disk.
	diskInterval = 250 * time.Millisecond
	// leastSpace is what a disk has that is not full.
	leastSpace = 1 << 20
	// diskShare is how many times longer than a look the pause after it is.
	diskShare = 10
)

// errOver ends a walk that has seen enough.
var errOver = errors.New("over a limit")

// usage adds up what is in a folder. It returns errOver as soon as it is more
// than the limits allow. Files may come and go meanwhile.
func usage(dir string, maxBytes int64, maxFiles int) (bytes int64, files int, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrPermission) && os.Chmod(dir, 0o700) == nil { // see openFor
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
			return errOver
		}
		if errors.Is(err, fs.ErrPermission) && !opened[p] {
			opened[p] = true
			return openFor(root, p, func() error { return fs.WalkDir(root.FS(), p, count) })
		}
		if err != nil { // gone, or not the program's
			return nil //nolint:nilerr // see above
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // gone
		}
		if bytes += allocated(info); bytes > maxBytes {
			return errOver
		}
		return nil
	}
	err = fs.WalkDir(root.FS(), ".", count)
	return bytes, files, err
}

// openFor opens a folder for a moment that a program has closed: what is in it
// counts. A service that is not root runs programs as its own user, who may.
func openFor(root *os.Root, p string, look func() error) error {
	info, err := root.Lstat(p)
	if err != nil || !info.IsDir() || root.Chmod(p, info.Mode().Perm()|0o700) != nil {
		return nil //nolint:nilerr // gone, or not the program's
	}
	err = look()
	_ = root.Chmod(p, info.Mode().Perm()) // it may be gone
	return err
}

// mountsOver reports whether the writable mounts hold too much together.
func mountsOver(mounts []Mount, l Limits) bool {
	bytes, files := l.Disk, l.Files
	for _, m := range mounts {
		if !m.Writable || isPart(m, mounts) {
			continue
		}
		b, f, err := usage(m.Source, bytes, files)
		if errors.Is(err, errOver) {
			return true
		}
		bytes, files = bytes-b, files-f
	}
	return false
}

// checkSpace returns an Unavailable error if a program failed where the machine
// had no room left for it, which the program may have met without telling.
func checkSpace(r Result, mounts []Mount) error {
	if r.ExitCode == 0 || r.Exceeded != "" {
		return nil
	}
	for _, m := range mounts {
		if m.Writable && freeSpace(m.Source) < leastSpace {
			return fault.New(fault.Unavailable, "the disk is full on which the programs of eval cases work; make room, or set --sandbox-scratch")
		}
	}
	return nil
}

// isPart reports whether another mount holds all that this one does.
func isPart(m Mount, mounts []Mount) bool {
	return slices.ContainsFunc(mounts, func(other Mount) bool {
		if other.Source == m.Source { // one of them counts
			return other.Target < m.Target && other.Writable
		}
		return other.Writable && within(m.Source, other.Source)
	})
}

// firstUser is the first of the users that programs of a service run as that
// runs as root itself, far from those that systems and container engines give out.
const firstUser = 2_000_000_000

// handOver gives the writable folders to the user that a program runs as.
func handOver(mounts []Mount, user int) error {
	for _, m := range mounts {
		if !m.Writable || isPart(m, mounts) {
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
// os.RemoveAll it opens a few files only, however deep the program has nested
// its folders, and it deletes what the program has taken its own rights from.
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

// Empty deletes what is in a folder; see Remove.
func Empty(root *os.Root) error {
	e := emptying{root: root}
	for {
		names, err := e.list(".")
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := e.remove(name); err != nil {
				return err
			}
		}
	}
}

// An emptying flattens a folder while it deletes it: a folder in a folder is
// moved to the top, and its turn comes later.
type emptying struct {
	root  *os.Root
	moved int
}

// remove deletes one member of the root, and moves the folders in it to the root.
func (e *emptying) remove(name string) error {
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
			if err := e.lift(filepath.Join(name, member)); err != nil {
				return err
			}
		}
	}
}

// lift deletes a file, or moves a folder to the root.
func (e *emptying) lift(p string) error {
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
		e.moved++
		err := e.root.Rename(p, fmt.Sprintf(".removed-%d", e.moved))
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
}

// list names up to a thousand members of a folder.
func (e *emptying) list(dir string) ([]string, error) {
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
