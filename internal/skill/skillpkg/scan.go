package skillpkg

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"

	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

// specialBits are the mode bits that no file of a skill needs.
const specialBits = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// A scan is one pass over an archive. It counts the bytes that are unpacked, and
// never trusts the sizes in headers.
type scan struct {
	ctx      context.Context
	source   *source
	size     int64 // of the archive
	limits   Limits
	tree     *tree
	contents *spool.Spool
	offsets  map[string]int64
	members  int
	files    int
	unpacked int64
	// tar is the hash of the unpacked tar, which Canonical compares, and
	// plainGzip whether the gzip header has no optional fields.
	tar       maphash.Hash
	plainGzip bool
	// at is the member whose content is being read, or "".
	at string
}

// newScan begins a scan. The spool grows from the packed size, the only one that can
// be trusted.
func newScan(ctx context.Context, src *source, size int64, limits Limits) *scan {
	return &scan{
		ctx:      ctx,
		source:   src,
		size:     size,
		limits:   limits,
		tree:     newTree(),
		contents: spool.New(size),
		offsets:  map[string]int64{},
	}
}

// format detects the format of the archive by its magic bytes.
func (s *scan) format() (Format, error) {
	// The name and content type of an upload are the sender's claim; these bytes are
	// what any reader goes by. "PK\x05\x06" begins a zip without members.
	magic := make([]byte, 4)
	n, err := s.source.ReadAt(magic, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	magic = magic[:n]
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return TarGz, nil
	case bytes.Equal(magic, []byte("PK\x03\x04")), bytes.Equal(magic, []byte("PK\x05\x06")):
		return Zip, nil
	}
	return "", refuse(CodeFormatUnknown, "", "neither a gzip nor a zip archive; pack the folder as tar.gz or zip")
}

// count is called for every member of any kind. Headers cost time without unpacking
// a byte, so they have a limit of their own.
func (s *scan) count() error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if s.members++; s.members > s.limits.members() {
		return tooLarge(CodeTooManyFiles, "",
			"the archive has more than %d members for at most %d files; leave out folders",
			s.limits.members(), s.limits.Files)
	}
	return nil
}

func (s *scan) addFolder(name string, mode fs.FileMode) error {
	path, err := cleanPath(name, true, s.limits)
	if err != nil {
		return err
	}
	if err := checkMode(path, mode); err != nil {
		return err
	}
	// The root itself, which tar writes as "./".
	if path == "" {
		return nil
	}
	return s.tree.addFolder(path)
}

// addFile adds a regular file with its content. Content is hashed and spooled while
// it is read, in one pass, so that memory does not depend on its size.
func (s *scan) addFile(name string, mode fs.FileMode, body io.Reader) error {
	n, path, err := s.addLeaf(name)
	if err != nil {
		return err
	}
	if err := checkMode(path, mode); err != nil {
		return err
	}
	// Left set after an error: blame names the member.
	s.at = path
	offset := s.contents.Size()
	digest := sha256.New()
	size, err := spool.Copy(io.MultiWriter(s.contents, digest), &limitedContent{scan: s, path: path, r: body})
	if err != nil {
		return err
	}
	s.at = ""
	sum := hex.EncodeToString(digest.Sum(nil))
	s.offsets[sum] = offset // of equal files the last: their bytes are the same
	n.file = File{Size: size, SHA256: sum, Mode: plainMode(mode), Kind: Regular}
	return nil
}

// addLink adds a symbolic link. It is resolved when the whole tree is known.
func (s *scan) addLink(name, target string) error {
	n, path, err := s.addLeaf(name)
	if err != nil {
		return err
	}
	if err := checkTarget(path, target, s.limits); err != nil {
		return err
	}
	// The mode of a link means nothing, and differs between systems.
	n.file = File{Mode: 0o644, Kind: Link, Target: target}
	return nil
}

// addHardLink adds a hard link to an earlier file, as a copy. Its size counts
// again, since installing makes a second file of it.
func (s *scan) addHardLink(name, target string) error {
	source, err := cleanPath(target, false, s.limits)
	if err != nil {
		return refuse(CodeHardLink, name,
			"the hard link does not point at a file of the archive; put the file in its place").because(err)
	}
	first := s.tree.find(source)
	// A link to a link, or forward, would need a second pass; tar never writes
	// those.
	if first == nil || first.file.Kind != Regular {
		return refuse(CodeHardLink, name,
			"the hard link does not point at an earlier file of the archive; put the file in its place")
	}
	n, _, err := s.addLeaf(name)
	if err != nil {
		return err
	}
	n.file = first.file
	s.unpacked += first.file.Size
	return s.checkSizes()
}

// addLeaf adds a file or link without its content.
func (s *scan) addLeaf(name string) (*node, string, error) {
	path, err := cleanPath(name, false, s.limits)
	if err != nil {
		return nil, "", err
	}
	s.files++
	if err := s.limits.checkFiles(s.files); err != nil {
		return nil, "", err
	}
	n, err := s.tree.addFile(path)
	return n, path, err
}

// checkSizes is called for every read, so that a bomb stops while it unpacks.
func (s *scan) checkSizes() error {
	if err := s.limits.checkUnpacked(s.unpacked); err != nil {
		return err
	}
	return s.limits.checkRatio(s.unpacked, s.size)
}

// blame distinguishes faults of the archive from ours: errors of the readers of
// the formats are the archive's, errors of the disk or the context are not.
func (s *scan) blame(err error) error {
	// It is the verdict on the archive already.
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	switch {
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case s.source.err != nil:
		return fmt.Errorf("archive: %w", s.source.err)
	case s.contents.Err() != nil:
		return fmt.Errorf("archive: %w", s.contents.Err())
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return refuse(CodeTruncated, s.at, "the archive ends too early; send it again in full").because(err)
	}
	return refuse(CodeMalformed, s.at, "the archive is damaged; pack the folder again").because(err)
}

// checkMode refuses bits that would give the installed file the rights of its owner.
func checkMode(path string, mode fs.FileMode) error {
	if mode&specialBits != 0 {
		return refuse(CodeSpecialMode, path, "the setuid, setgid or sticky bit is set; clear it and pack again")
	}
	return nil
}

// plainMode reduces a mode to 0644 or 0755.
func plainMode(mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// A limitedContent reads the content of one file, and fails when it or the whole
// archive becomes too large. The size of a header is not trusted, hence the count.
type limitedContent struct {
	scan *scan
	path string
	r    io.Reader
	size int64
}

func (m *limitedContent) Read(p []byte) (int, error) {
	// Counted before the error is looked at: a reader may return bytes and io.EOF at
	// once.
	n, err := m.r.Read(p)
	m.size += int64(n)
	m.scan.unpacked += int64(n)
	if over := m.scan.limits.checkFile(m.path, m.size); over != nil {
		return n, over
	}
	if over := m.scan.checkSizes(); over != nil {
		return n, over
	}
	return n, err
}

// A source reads the packed bytes. It fails when the context ends, and records a
// read error, which is not the archive's fault.
type source struct {
	ctx context.Context
	r   io.ReaderAt
	err error
}

func (s *source) ReadAt(p []byte, off int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
