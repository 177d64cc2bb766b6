package host

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// Bounds of a repository's tarball. It may be much larger than the skill in
// it, so it is read as a stream of which only the skill's folder is kept.
const (
	MaxTarball  = 256 << 20 // bytes on the wire
	maxUnpacked = 2 << 30
	maxMembers  = 500_000
	// maxKept bounds the files below the path, those left out later included.
	maxKept = 256 << 20
)

// ReadTarball packs what a host's tar.gz of a whole commit holds below a path.
// The wrapper folder is stripped, whatever its name. An archive that ends too
// early is BadGateway: another try may help.
func ReadTarball(ctx context.Context, r io.Reader, folder string) (_ *skillpkg.Package, err error) {
	kept, err := os.CreateTemp("", "tarball-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = kept.Close()           // nothing in it is wanted any more
		_ = os.Remove(kept.Name()) // the system's sweep finds it otherwise
	}()
	t := &tarball{folder: folder, tree: NewTree(), kept: kept, limits: skillpkg.DefaultLimits()}
	if err := t.read(ctx, r); err != nil {
		return nil, err
	}
	if t.tree.Empty() {
		return nil, fault.New(fault.NotFound, "the repository has no folder %s", folder)
	}
	return t.tree.Package(ctx)
}

// A tarball is a repository on its way in.
type tarball struct {
	folder string
	tree   *Tree
	limits skillpkg.Limits
	kept   *os.File
	offset int64
}

func (t *tarball) read(ctx context.Context, r io.Reader) error {
	unzipped, err := gzip.NewReader(bufio.NewReader(r))
	if err != nil {
		return brokenOff(err)
	}
	members := tar.NewReader(&bounded{from: unzipped, left: maxUnpacked})
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := members.Next()
		if errors.Is(err, io.EOF) {
			// The gzip's checksum stands behind the tar's end.
			_, err := io.Copy(io.Discard, unzipped)
			return brokenOff(err)
		}
		if err != nil {
			return brokenOff(err)
		}
		if n >= maxMembers {
			return fault.New(fault.TooLarge, "the repository holds more than %d files", maxMembers)
		}
		if err := t.take(h, members); err != nil {
			return err
		}
	}
}

// bounded is an unpacked archive that may not go on for ever.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, fault.New(fault.TooLarge, "unpacked")
	}
	return n, err
}

// brokenOff tells the host's failure to send an archive from a limit of ours.
func brokenOff(err error) error {
	if fault.Is(err, fault.TooLarge) {
		return fault.New(fault.TooLarge, "the repository's archive is larger than %d MiB, or than %d GiB unpacked", MaxTarball>>20, maxUnpacked>>30).Because(err)
	}
	if err == nil || fault.Of(err) != fault.Internal || errors.Is(err, context.Canceled) {
		return err
	}
	return fault.New(fault.BadGateway, "the code host's archive is damaged or ends too early").Because(err)
}

// take adds one member if it lies below the folder.
func (t *tarball) take(h *tar.Header, content io.Reader) error {
	_, name, ok := strings.Cut(strings.TrimPrefix(h.Name, "./"), "/")
	if !ok || name == "" {
		return nil // the wrapper itself, or a header for all members
	}
	if name == ".gitmodules" && h.Typeflag == tar.TypeReg {
		return t.takeModules(h, content)
	}
	return t.takeBelow(h, name, content)
}

// takeModules also looks for submodules below the folder: in the archive they
// are empty folders.
func (t *tarball) takeModules(h *tar.Header, content io.Reader) error {
	const longest = 1 << 20
	raw, err := io.ReadAll(io.LimitReader(content, longest))
	if err != nil {
		return brokenOff(err)
	}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(key) != "path" {
			continue
		}
		module := strings.Trim(strings.TrimSpace(value), `"`)
		if _, inside := below(t.folder, module); inside || module == t.folder {
			return RefuseSubmodule(module)
		}
	}
	h.Size = int64(len(raw))
	return t.takeBelow(h, ".gitmodules", bytes.NewReader(raw))
}

func (t *tarball) takeBelow(h *tar.Header, name string, content io.Reader) error {
	name, ok := below(t.folder, name)
	if !ok {
		return nil
	}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		return t.tree.AddFolder(strings.TrimSuffix(name, "/")) // it follows from its files
	case tar.TypeSymlink:
		return t.tree.AddLink(name, h.Linkname)
	case tar.TypeReg:
		return t.keep(h, name, content)
	}
	return fault.New(fault.Malformed, "%s is neither a file nor a link", name)
}

// keep stores the content of a file until the tree is packed. One that is over
// the limit is only noted: the skill may leave it out.
func (t *tarball) keep(h *tar.Header, name string, content io.Reader) error {
	executable := h.FileInfo().Mode()&0o111 != 0
	if h.Size > t.limits.File {
		return t.tree.AddFile(name, executable, h.Size, func() (io.ReadCloser, error) { return nil, os.ErrInvalid })
	}
	if t.offset+h.Size > maxKept {
		return fault.New(fault.TooLarge, "the folder %s holds more than %d MiB; choose the folder of the skill", t.folder, maxKept>>20)
	}
	n, err := io.Copy(t.kept, content)
	if err != nil {
		return brokenOff(err)
	}
	from := t.offset
	t.offset += n
	return t.tree.AddFile(name, executable, n, func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(t.kept, from, n)), nil
	})
}
