package skillpkg

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

// A Choice is what Pick does with the next file.
type Choice int

// The choices.
const (
	Skip Choice = iota
	Take
	Stop // read no further
)

// Pick reads single files of an archive without unpacking the rest. It is for
// archives that Open has accepted before: names and modes are not validated
// again, and files are identified by their digest. Pick calls choose for each
// regular file, in the order of the archive, and got with the content of those
// that are taken.
func Pick(
	ctx context.Context, r io.Reader, limits Limits,
	choose func(size int64) Choice, got func(sum string, content []byte),
) (err error) {
	defer fault.Wrap(&err, "pick files")
	p := &picker{ctx: ctx, limits: limits, choose: choose, got: got}
	// Two bytes tell the two formats apart, since Open accepted the archive.
	packed := bufio.NewReaderSize(r, 64*kib)
	magic, err := packed.Peek(2)
	if err != nil {
		return err
	}
	if string(magic) == "PK" {
		return p.pickZip(packed, r)
	}
	return p.pickTarGz(packed)
}

// A picker is one call of Pick.
type picker struct {
	ctx    context.Context
	limits Limits
	choose func(size int64) Choice
	got    func(sum string, content []byte)
}

func (p *picker) pickTarGz(packed io.Reader) error {
	gz := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(gz)
	if err := gz.Reset(packed); err != nil {
		return err
	}
	// The limit is a second line of defence: the archive in the bucket may have been
	// replaced.
	members := tar.NewReader(io.LimitReader(gz, p.limits.stream()))
	for {
		header, err := members.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			// Links are not identified by a digest, so no caller can want one.
			continue
		}
		if more, err := p.file(header.Size, members); err != nil || !more {
			return err
		}
	}
}

// pickZip needs random access, since a zip's directory is at its end: to the
// stream itself if it can seek, to a copy of it otherwise.
func (p *picker) pickZip(packed, source io.Reader) error {
	at, size, err := seekable(source)
	if err != nil {
		return err
	}
	if at == nil {
		kept := spool.New(-1)
		defer kept.Close()
		if size, err = spool.Copy(kept, io.LimitReader(packed, p.limits.Packed)); err != nil {
			return err
		}
		at = kept
	}
	archive, err := zip.NewReader(at, size)
	if err != nil {
		return err
	}
	for _, f := range archive.File {
		if !f.Mode().IsRegular() {
			continue
		}
		body, err := f.Open()
		if err != nil {
			return err
		}
		more, err := p.file(int64(f.UncompressedSize64), body) // compared with a limit before use
		_ = body.Close()                                       // it only frees a decompressor
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// file handles one file, and reports whether to continue.
func (p *picker) file(size int64, body io.Reader) (more bool, err error) {
	if err := p.ctx.Err(); err != nil {
		return false, err
	}
	// A zip's size is 64 bits without sign, and may be anything in a damaged
	// directory.
	if size < 0 || size > p.limits.File {
		return true, nil
	}
	switch p.choose(size) {
	case Stop:
		return false, nil
	case Take:
		// At most limits.File bytes, checked above.
		content := make([]byte, size)
		if _, err := io.ReadFull(body, content); err != nil {
			return false, err
		}
		sum := sha256.Sum256(content)
		p.got(hex.EncodeToString(sum[:]), content)
	case Skip:
	}
	return true, nil
}

// seekable returns a stream as an io.ReaderAt, with its size, or nil if it cannot
// seek.
func seekable(r io.Reader) (io.ReaderAt, int64, error) {
	s, ok := r.(io.ReadSeeker)
	if !ok {
		return nil, 0, nil
	}
	size, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, fmt.Errorf("size of the archive: %w", err)
	}
	return seekReader{s}, size, nil
}

// A seekReader is an io.ReaderAt for one goroutine.
type seekReader struct{ io.ReadSeeker }

// ReadAt implements io.ReaderAt.
func (r seekReader) ReadAt(p []byte, off int64) (int, error) {
	if _, err := r.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(r.ReadSeeker, p)
	// The contract of io.ReaderAt: a short read at the end is io.EOF.
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}
