package taskpkg

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Programs are root inside an image, so the oracle or an agent may replace any file
// there. Before the verifier runs, what every verifier trusts is restored from the
// image, also where PATH leads to a folder that is carried over (see renewImage): the
// image's programs, and the dynamic loader.

// basicPrograms are restored, or removed, in each folder of PATH.
var basicPrograms = []string{
	"[", "awk", "bash", "basename", "cat", "chmod", "cmp", "cp", "cut", "dash", "date", "diff", "dirname", "echo", "env",
	"expr", "false", "find", "grep", "head", "ls", "md5sum", "mkdir", "mktemp", "mv", "printf", "pwd", "readlink", "realpath",
	"rm", "sed", "seq", "sh", "sha256sum", "sleep", "sort", "stat", "tail", "tee", "test", "timeout", "touch", "tr", "true",
	"uniq", "wc", "which", "xargs",
}

// basicFiles are the dynamic loader's: its settings, itself and the C library.
var basicFiles = []string{
	"etc/ld.so.preload", "lib/ld-*.so*", "lib64/ld-*.so*", "usr/lib/ld-*.so*", "usr/lib64/ld-*.so*", "lib/*/ld-*.so*",
	"usr/lib/*/ld-*.so*", "usr/lib/*/libc.so.6", "usr/lib64/libc.so.6",
}

// usualPath has the folders where images have programs, whatever their own PATH is.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// maxLinks bounds how many symbolic links are followed on the way to a program.
const maxLinks = 20

// restoreBasics makes the basic files of a trial's root those of its image again:
// changed ones are restored, and added ones removed.
func (t *trial) restoreBasics() (err error) {
	original, err := os.OpenRoot(t.image.Dir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, original.Close()) }()
	written, err := os.OpenRoot(t.imageRoot.Written())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, written.Close()) }()
	b := basics{original: original, written: written, overlay: t.imageRoot.Changes != ""}
	folders := strings.Split(usualPath+":"+cmp.Or(t.env["PATH"], t.image.Env["PATH"]), ":")
	b.names = programNames(original, folders)
	for _, dir := range folders {
		if err := b.restorePrograms(strings.TrimPrefix(path.Clean(dir), "/")); err != nil {
			return err
		}
	}
	for _, pattern := range basicFiles {
		found := []string{pattern}
		if strings.Contains(pattern, "*") {
			if found, err = fs.Glob(original.FS(), pattern); err != nil {
				return err
			}
		}
		for _, name := range found {
			if err := b.restore(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// programNames returns the basic programs and every name that the image has in a folder
// of PATH: interpreters and tools, which another folder must not shadow either.
func programNames(image *os.Root, folders []string) []string {
	names := slices.Clone(basicPrograms)
	for _, dir := range folders {
		entries, _ := fs.ReadDir(image.FS(), cmp.Or(strings.TrimPrefix(path.Clean(dir), "/"), ".")) // it may not be there
		for _, entry := range entries {
			if !entry.IsDir() {
				names = append(names, entry.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// basics restores files of an image in a root, by their paths without a leading slash.
type basics struct {
	original, written *os.Root
	names             []string // of programs
	overlay           bool     // written has what differs from the image, else all files
}

// restorePrograms restores the programs in a folder of PATH. Where nothing was changed
// it only follows links, which may lead to what was.
func (b *basics) restorePrograms(dir string) error {
	at, covered, err := b.follow(dir, maxLinks)
	if err != nil {
		return err
	}
	changed := covered
	if _, err := b.written.Lstat(cmp.Or(at, dir)); err == nil {
		changed = true
	}
	var programs *os.Root
	if at != "" {
		if programs, err = b.original.OpenRoot(at); err != nil {
			return nil // it is no folder
		}
		defer programs.Close()
	}
	for _, name := range b.names {
		isLink := false
		if programs != nil {
			info, err := programs.Lstat(name)
			isLink = err == nil && info.Mode().Type() == fs.ModeSymlink
		}
		if changed || isLink { // which may lead to what is changed
			if err := b.restore(path.Join(cmp.Or(at, dir), name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// restore makes a file what it is in the image. If the image has no such file, it
// must not be there.
func (b *basics) restore(name string) error {
	at, _, err := b.follow(name, maxLinks)
	if err != nil || at != "" {
		return err
	}
	if _, err := b.written.Lstat(name); err != nil {
		return nil //nolint:nilerr // it is not there, or behind a link that leads out
	}
	return b.written.RemoveAll(name)
}

// follow restores every folder, link and file on a path of the image, through at most
// so many symbolic links. It returns where the path ends, "" if the image has no such
// file, and whether a folder on it covers the image's own files. Without an overlay all
// of them are covered.
func (b *basics) follow(name string, links int) (at string, covered bool, err error) {
	dir, rest, covered := "", name, !b.overlay
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		at := path.Join(dir, part)
		info, err := b.original.Lstat(at)
		switch {
		case err != nil:
			return "", covered, nil //nolint:nilerr // the image has no such file
		case info.IsDir():
			if err := b.restoreDir(at); err != nil {
				return "", covered, err
			}
			covered = covered || isOpaque(filepath.Join(b.written.Name(), at))
			dir = at
			continue
		}
		if err := b.restoreFile(at, info, covered); err != nil || info.Mode().Type() != fs.ModeSymlink || links == 0 {
			return at, covered, err
		}
		target, err := b.original.Readlink(at)
		if err != nil {
			return "", covered, err
		}
		if !path.IsAbs(target) {
			target = path.Join("/", dir, target)
		}
		return b.follow(strings.TrimPrefix(path.Join(target, rest), "/"), links-1)
	}
	return dir, covered, nil
}

// restoreDir removes whatever replaced a folder of the image, e.g. a link.
func (b *basics) restoreDir(at string) error {
	if info, err := b.written.Lstat(at); err != nil || info.IsDir() {
		return nil //nolint:nilerr // it is the image's
	}
	if err := b.written.RemoveAll(at); err != nil || b.overlay {
		return err
	}
	return b.written.MkdirAll(at, 0o755)
}

// restoreFile restores a link or a file of the image. In an overlay it reappears once
// what hides it is removed; where it is covered it has to be copied.
func (b *basics) restoreFile(at string, info fs.FileInfo, covered bool) error {
	changed, err := b.written.Lstat(at)
	if err == nil && covered && b.isSame(at, info, changed) || err != nil && !covered {
		return nil
	}
	if err := b.written.RemoveAll(at); err != nil || !covered {
		return err
	}
	if err := b.written.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := b.original.Readlink(at)
		if err != nil {
			return err
		}
		return b.written.Symlink(target, at)
	}
	content, err := b.original.ReadFile(at)
	if err != nil {
		return err
	}
	return b.written.WriteFile(at, content, info.Mode().Perm())
}

// isSame compares type, size, and content or link target. Times don't count: programs
// can set them.
func (b *basics) isSame(at string, original, changed fs.FileInfo) bool {
	if original.Mode().Type() != changed.Mode().Type() || original.Size() != changed.Size() {
		return false
	}
	if original.Mode().Type() == fs.ModeSymlink {
		one, _ := b.original.Readlink(at)
		two, _ := b.written.Readlink(at)
		return one == two
	}
	one, err := b.original.ReadFile(at)
	two, err2 := b.written.ReadFile(at)
	return errors.Join(err, err2) == nil && bytes.Equal(one, two)
}
