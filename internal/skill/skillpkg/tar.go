package skillpkg

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

// tarBlock is the unit of a tar: headers, and contents with their padding, are
// multiples of it.
const tarBlock = 512

// gzipReaders saves the allocation of large windows for every new reader.
var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

// readTarGz adds the members of a tar.gz.
func (s *scan) readTarGz() error {
	gz := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(gz)
	if err := gz.Reset(io.NewSectionReader(s.source, 0, s.size)); err != nil {
		return err
	}
	// It is read after Reset, which parses the first gzip header only.
	s.plainGzip = gz.Name == "" && gz.Comment == "" && len(gz.Extra) == 0
	tarStream := &tarStream{r: gz, limits: s.limits, seen: &s.tar}
	members := tar.NewReader(tarStream)
	// end is where the last member's content ends and the end marker must be.
	end := int64(0)
	for {
		header, err := members.Next()
		// The tar reader stops at the end marker, or silently where the stream ends:
		// finish tells which it was.
		if errors.Is(err, io.EOF) {
			return tarStream.finish(end)
		}
		if errors.Is(err, tar.ErrFieldTooLong) {
			return refuse(CodeHeaderTooLong, "", "a header of the archive is too long; pack the folder again").because(err)
		}
		if err != nil {
			return err
		}
		if err := s.count(); err != nil {
			return err
		}
		if err := s.addTarMember(header, members); err != nil {
			return err
		}
		// The content was read to its last byte; its padding follows.
		end = (tarStream.offset + tarBlock - 1) / tarBlock * tarBlock
	}
}

// addTarMember adds a member by its type. Types that are not listed are refused
// rather than skipped: another reader may know them.
func (s *scan) addTarMember(h *tar.Header, body io.Reader) error {
	if err := checkRecords(h); err != nil {
		return err
	}
	// Readers disagree on whether content follows such a header, so that one would
	// read as a header what is content for another.
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeXGlobalHeader && h.Size != 0 {
		return refuse(CodeExtension, h.Name, "the member has a size without being a file; pack the folder again")
	}
	mode := h.FileInfo().Mode()
	switch h.Typeflag {
	case tar.TypeReg:
		if strings.TrimPrefix(h.Name, "./") == rootAppleDouble {
			_, err := spool.Copy(io.Discard, &limitedContent{scan: s, path: h.Name, r: body})
			return err
		}
		return s.addFile(h.Name, mode, body)
	case tar.TypeDir:
		return s.addFolder(h.Name, mode)
	case tar.TypeSymlink:
		return s.addLink(h.Name, h.Linkname)
	case tar.TypeLink:
		if err := checkMode(h.Name, mode); err != nil {
			return err
		}
		return s.addHardLink(h.Name, h.Linkname)
	// "git archive" writes one with the commit; checkRecords has refused harmful
	// ones.
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return refuse(CodeDevice, h.Name, "devices, FIFOs and sockets are not allowed; remove it")
	}
	return refuse(CodeMemberType, h.Name,
		"the archive holds a member of type %q; only files, folders and links are allowed", h.Typeflag)
}

// checkRecords refuses extensions with which other readers would see another
// archive than we do: sparse files, and names or sizes for all members at once.
func checkRecords(h *tar.Header) error {
	if h.Typeflag == tar.TypeGNUSparse {
		return refuse(CodeSparse, h.Name, "sparse files are not allowed; pack without --sparse")
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return refuse(CodeSparse, h.Name, "sparse files are not allowed; pack without --sparse")
		}
		if h.Typeflag != tar.TypeXGlobalHeader {
			continue
		}
		switch key {
		case "path", "linkpath", "size":
			return refuse(CodeExtension, "", "a global header sets %s for all members; pack the folder again", key)
		}
	}
	return nil
}

// A tarStream reads the unpacked tar and checks its end. It is the only place that
// sees all bytes, including those after the end marker, which archive/tar never
// reads.
type tarStream struct {
	r      io.Reader
	limits Limits
	seen   *maphash.Hash
	offset int64
	// data is the offset after the last byte that is not zero.
	data int64
}

func (t *tarStream) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	for i := n; i > 0; i-- {
		if p[i-1] != 0 {
			t.data = t.offset + int64(i)
			break
		}
	}
	t.offset += int64(n)
	_, _ = t.seen.Write(p[:n]) // never fails
	if t.offset > t.limits.stream() {
		return n, tooLarge(CodeUnpackedTooLarge, "",
			"the archive unpacks to more than %s; leave out what the skill does not need", mib(t.limits.Unpacked))
	}
	if errors.Is(err, gzip.ErrHeader) {
		return n, refuse(CodeTrailingData, "", "something follows the end of the gzip stream; pack the folder again")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("gzip: %w", err)
	}
	return n, err
}

// finish checks what follows the members, the last of which ended at end: at
// least two blocks of zeros, and nothing but zeros.
func (t *tarStream) finish(end int64) error {
	if _, err := io.Copy(io.Discard, t); err != nil {
		return err
	}
	switch {
	case t.data > end:
		return refuse(CodeTrailingData, "", "something follows the end of the tar archive; pack the folder again")
	case t.offset < end+2*tarBlock:
		return refuse(CodeNoEndMarker, "", "the tar archive has no end marker; send it again in full")
	}
	return nil
}
