package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A reader reads a backup and checks every sum on the way. Everything that is
// wrong with the file is a Malformed fault.
type reader struct {
	zst    *zstd.Decoder
	tar    *tar.Reader
	hash   hash.Hash       // of the member that is being read
	name   string          // of that member; "" if there is none
	sums   strings.Builder // of the members since the last list
	list   int
	all    hash.Hash
	header Header
}

// A member is a file of the archive. Its content must be read to its end
// before the next.
type member struct {
	name    string
	mode    int64
	size    int64
	content io.Reader
}

func newReader(r io.Reader) (*reader, error) {
	zst, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(64<<20), zstd.WithDecoderConcurrency(2))
	if err != nil {
		return nil, err
	}
	b := &reader{zst: zst, tar: tar.NewReader(zst), hash: sha256.New(), all: sha256.New()}
	if err := b.readHeader(); err != nil {
		zst.Close()
		return nil, err
	}
	return b, nil
}

func (b *reader) close() { b.zst.Close() }

func (b *reader) readHeader() error {
	first, err := b.tar.Next()
	if err != nil || first.Name != headerName || first.Size > 1<<16 {
		return fault.New(fault.Malformed, "this is not a backup of Whetstone").Because(err)
	}
	content, err := b.bytes(b.take(first))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &b.header); err != nil {
		return damaged(err)
	}
	if b.header.Format != format {
		return fault.New(fault.Malformed, "the backup has the form %d and this program reads %d: use the version of Whetstone that made it (%s)", b.header.Format, format, b.header.Version)
	}
	if b.header.Schema < 1 {
		return damaged(errors.New("it has no schema"))
	}
	return nil
}

// damaged is the fault of a file that cannot be trusted.
func damaged(cause error) error {
	return fault.New(fault.Malformed, "the backup is damaged: %s; nothing of it was restored", cause).Because(cause)
}

func (b *reader) take(h *tar.Header) member {
	b.name = h.Name
	b.hash.Reset()
	return member{name: h.Name, mode: h.Mode, size: h.Size, content: checkedContent{io.TeeReader(b.tar, b.hash)}}
}

// checkedContent tells a failure of the file from one of whoever it is
// written to.
type checkedContent struct{ r io.Reader }

func (c checkedContent) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged(err)
	}
	return n, err
}

// maxMember bounds what is read into memory at once.
const maxMember = 1 << 30

func (b *reader) bytes(m member) ([]byte, error) {
	if m.size > maxMember {
		return nil, damaged(fmt.Errorf("%s is too large", m.name))
	}
	return io.ReadAll(m.content)
}

// next returns the next member that is no list of sums, and checks the lists
// that it passes.
func (b *reader) next() (member, error) {
	for {
		if b.name != "" {
			fmt.Fprintf(&b.sums, "%s  %s\n", hex.EncodeToString(b.hash.Sum(nil)), b.name)
			b.name = ""
		}
		h, err := b.tar.Next()
		if errors.Is(err, io.EOF) {
			return member{}, damaged(errors.New("its end is missing"))
		}
		if err != nil {
			return member{}, damaged(err)
		}
		if h.Typeflag != tar.TypeReg {
			return member{}, damaged(fmt.Errorf("%q is not a file", h.Name))
		}
		m := b.take(h)
		if !strings.HasPrefix(h.Name, sumsDir) {
			return m, nil
		}
		if err := b.checkSums(m); err != nil {
			return member{}, err
		}
	}
}

func (b *reader) checkSums(m member) error {
	content, err := b.bytes(m)
	if err != nil {
		return err
	}
	b.list++
	if m.name != numbered(sumsDir, b.list) || string(content) != b.sums.String() {
		return damaged(errors.New("what it holds does not match its sums"))
	}
	b.all.Write(content)
	b.sums.Reset()
	b.name = ""
	return nil
}

// readManifest reads the last member and makes sure that nothing follows.
func (b *reader) readManifest(m member) (manifest Manifest, err error) {
	content, err := b.bytes(m)
	if err != nil {
		return manifest, err
	}
	if err := json.Unmarshal(content, &manifest); err != nil {
		return manifest, damaged(err)
	}
	if b.sums.Len() > 0 || manifest.Sums != hex.EncodeToString(b.all.Sum(nil)) || manifest.Header != b.header {
		return manifest, damaged(errors.New("what it holds does not match its manifest"))
	}
	if _, err := b.tar.Next(); !errors.Is(err, io.EOF) {
		return manifest, damaged(errors.New("something follows its manifest"))
	}
	if n, err := io.Copy(io.Discard, b.zst); n > 0 || err != nil {
		return manifest, damaged(errors.New("something follows its end"))
	}
	return manifest, nil
}
