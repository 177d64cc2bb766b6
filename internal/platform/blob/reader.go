package blob

import (
	"context"
	"errors"
	"io"
)

var errSize = errors.New("body does not have the size announced")

// section returns the unread rest of r as a reader that can start over, or nil
// if r can be read only once. It leaves r where it was.
func section(r io.Reader) *io.SectionReader {
	s, ok := r.(interface {
		io.ReaderAt
		io.Seeker
	})
	if !ok {
		return nil
	}
	// A pipe is an *os.File, too: it fails at the first Seek.
	start, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	if _, err := s.Seek(start, io.SeekStart); err != nil {
		return nil
	}
	return io.NewSectionReader(s, start, end-start)
}

// exactReader reads exactly left bytes from r, or fails. It returns the last of
// them only when it knows that r has no more, so that a caller that counts to
// left never takes a part for the whole. It fails once ctx is done.
type exactReader struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (e *exactReader) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	if e.left < 0 {
		return 0, errSize
	}
	var n int
	if e.left > 0 {
		var err error
		n, err = e.r.Read(p[:min(int64(len(p)), e.left)])
		e.left -= int64(n)
		if err != nil && err != io.EOF {
			return n, err
		}
		if e.left > 0 && err == io.EOF {
			return n, errSize
		}
		if e.left > 0 {
			return n, nil
		}
	}
	switch _, err := io.ReadFull(e.r, make([]byte, 1)); err {
	case io.EOF:
		return n, io.EOF
	case nil:
		return 0, errSize
	default:
		return 0, err
	}
}
