package environments

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/builder"
)

// blockSize is what a file takes of the disk at least.
const blockSize = 4096

// maxFiles bounds the files of an environment.
const maxFiles = 2_000_000

// unpack writes the files of an image into a new folder, where all belong to one user, and returns
// the bytes that they take. Our builder makes the tar, but of files that a stranger wrote: os.Root
// keeps every path inside the folder, and symbolic links are written but never followed out of it.
// Devices and pipes are left out.
func unpack(ctx context.Context, from io.Reader, dir string, size int64) (bytes int64, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil { // another user runs in it
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	u := unpacker{root: root, modes: map[string]fs.FileMode{}}
	members := tar.NewReader(from)
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		header, err := members.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		// An empty file takes a block too, and a sparse one is counted in full: both are ways to
		// fill a disk.
		if bytes += (header.Size + blockSize - 1) / blockSize * blockSize; bytes > size || n > maxFiles {
			return 0, &builder.Failed{Reason: fmt.Sprintf("the image has more than %d MiB, or than %d files", size>>20, maxFiles)}
		}
		if err := u.add(header, members); err != nil {
			return 0, fmt.Errorf("%s: %w", header.Name, err)
		}
	}
	// A folder without permissions could not have been filled.
	for name, mode := range u.modes {
		if err := root.Chmod(name, mode); err != nil {
			return 0, err
		}
	}
	return bytes, makeMountPoints(root)
}

type unpacker struct {
	root  *os.Root
	modes map[string]fs.FileMode // of folders
}

// add writes one member. Permissions of folders are set at the end, set-user-ID bits are dropped,
// and the owner is always the sandbox's user, since it can't have others.
func (u *unpacker) add(header *tar.Header, content io.Reader) error {
	name := filepath.Clean(strings.TrimPrefix(header.Name, "./"))
	mode := header.FileInfo().Mode().Perm() | 0o400 // the service copies it
	switch header.Typeflag {
	case tar.TypeDir:
		if err := u.root.MkdirAll(name, 0o755); err != nil {
			return err
		}
		u.modes[name] = mode | 0o700 | header.FileInfo().Mode()&fs.ModeSticky
	case tar.TypeReg:
		f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
			return err
		}
		if err := u.root.Chtimes(name, header.ModTime, header.ModTime); err != nil {
			return err
		}
	case tar.TypeLink:
		return u.root.Link(filepath.Clean(strings.TrimPrefix(header.Linkname, "./")), name)
	case tar.TypeSymlink:
		if err := u.root.Symlink(header.Linkname, name); err != nil {
			return err
		}
	default:
		// Devices, pipes and PAX globals.
		return nil
	}
	return u.root.Lchown(name, sandbox.RootUser(), sandbox.RootUser())
}

// makeMountPoints creates the folders that every sandbox mounts, so that mounting
// them changes nothing.
func makeMountPoints(root *os.Root) error {
	for _, name := range []string{"dev", "etc", "proc", "sys", "tmp", "root"} {
		err := root.Mkdir(name, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := root.Chown(name, sandbox.RootUser(), sandbox.RootUser()); err != nil {
			return err
		}
	}
	return nil
}

// copyFiles copies an environment into a new folder. The copies share their blocks
// with the originals where the file system can do that (copy_file_range).
func copyFiles(ctx context.Context, from, to string) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := os.MkdirAll(to, 0o755); err != nil { // another user runs in it
		return err
	}
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	return fs.WalkDir(source.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return copyOne(source, target, p)
	})
}

func copyOne(source, target *os.Root, name string) error {
	info, err := source.Lstat(name)
	if err != nil {
		return err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		if err := target.MkdirAll(name, 0o755); err != nil {
			return err
		}
		if err := target.Chmod(name, info.Mode().Perm()|info.Mode()&fs.ModeSticky); err != nil {
			return err
		}
	case fs.ModeSymlink:
		link, err := source.Readlink(name)
		if err != nil {
			return err
		}
		if err := target.Symlink(link, name); err != nil {
			return err
		}
	default:
		in, err := source.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := target.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		if err := errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close()); err != nil {
			return err
		}
		if err := target.Chtimes(name, info.ModTime(), info.ModTime()); err != nil {
			return err
		}
	}
	return target.Lchown(name, sandbox.RootUser(), sandbox.RootUser())
}
