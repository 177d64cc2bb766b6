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

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Limits of a repository's tarball. It may be much larger than the skill in it,
// so it is read as a stream, and only the skill's folder is kept.
const (
	MaxTarball  = 256 << 20 // bytes on the wire
	maxUnpacked = 2 << 30
	maxMembers  = 500_000
	// maxKept limits the files below the path, including those that are left
	// out of the package.
	maxKept = 256 << 20
)

// ReadTarball packs the files below a path from a host's tar.gz of a whole
// commit. The wrapper folder is stripped, whatever its name. A truncated archive
// is BadGateway: a retry may help.
func ReadTarball(ctx context.Context, r io.Reader, folder string) (_ *skillpkg.Package, err error) {
	kept, err := os.CreateTemp("", "tarball-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = kept.Close()           // a temporary file
		_ = os.Remove(kept.Name()) // the system deletes it otherwise
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

// A tarball is an archive that is being read.
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
		return archiveError(err)
	}
	members := tar.NewReader(&limitedReader{from: unzipped, left: maxUnpacked})
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := members.Next()
		if errors.Is(err, io.EOF) {
			// gzip's checksum follows the end of the tar.
			_, err := io.Copy(io.Discard, unzipped)
			return archiveError(err)
		}
		if err != nil {
			return archiveError(err)
		}
		if n >= maxMembers {
			return fault.New(fault.TooLarge, "the repository holds more than %d files", maxMembers)
		}
		// The wrapper folder itself, and a global header, have no name below it.
		_, name, _ := strings.Cut(strings.TrimPrefix(h.Name, "./"), "/")
		switch {
		case name == "":
		case name == ".gitmodules" && h.Typeflag == tar.TypeReg:
			err = t.addModules(h, members)
		default:
			err = t.addBelow(h, name, members)
		}
		if err != nil {
			return err
		}
	}
}

// limitedReader limits the unpacked size of an archive: a decompression bomb is
// TooLarge.
type limitedReader struct {
	from io.Reader
	left int64
}

func (b *limitedReader) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, fault.New(fault.TooLarge, "unpacked")
	}
	return n, err
}

// archiveError distinguishes a damaged or truncated archive from one over our
// limits.
func archiveError(err error) error {
	if fault.Is(err, fault.TooLarge) {
		return fault.New(fault.TooLarge, "the repository's archive is larger than %d MiB, or than %d GiB unpacked",
			MaxTarball>>20, maxUnpacked>>30).Because(err)
	}
	if err == nil || fault.Of(err) != fault.Internal || errors.Is(err, context.Canceled) {
		return err
	}
	return fault.New(fault.BadGateway, "the code host's archive is damaged or ends too early").Because(err)
}

// addModules adds .gitmodules, and refuses submodules below the folder: in the
// archive they are empty folders.
func (t *tarball) addModules(h *tar.Header, content io.Reader) error {
	const longest = 1 << 20
	raw, err := io.ReadAll(io.LimitReader(content, longest))
	if err != nil {
		return archiveError(err)
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
	return t.addBelow(h, ".gitmodules", bytes.NewReader(raw))
}

// addBelow adds a member if it is below the folder.
func (t *tarball) addBelow(h *tar.Header, name string, content io.Reader) error {
	name, ok := below(t.folder, name)
	if !ok {
		return nil
	}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		return t.tree.AddFolder(strings.TrimSuffix(name, "/")) // only counted
	case tar.TypeSymlink:
		return t.tree.AddLink(name, h.Linkname)
	case tar.TypeReg:
		return t.keep(h, name, content)
	}
	return fault.New(fault.Malformed, "%s is neither a file nor a link", name)
}

// keep stores the content of a file until the tree is packed. A file over the
// size limit is added without its content: the skill may leave it out.
func (t *tarball) keep(h *tar.Header, name string, content io.Reader) error {
	executable := h.FileInfo().Mode()&0o111 != 0
	if h.Size > t.limits.File {
		return t.tree.AddFile(name, executable, h.Size, func() (io.ReadCloser, error) { return nil, os.ErrInvalid })
	}
	if t.offset+h.Size > maxKept {
		return fault.New(fault.TooLarge,
			"the folder %s holds more than %d MiB; choose the folder of the skill", t.folder, maxKept>>20)
	}
	// On disk, not in memory: several workers may each keep maxKept at once.
	n, err := io.Copy(t.kept, content)
	if err != nil {
		return archiveError(err)
	}
	from := t.offset
	t.offset += n
	return t.tree.AddFile(name, executable, n, func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(t.kept, from, n)), nil
	})
}
