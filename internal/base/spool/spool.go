// Package spool has spooled temporary files, and copies with pooled buffers: bytes that are written once and
// read many times, in memory while they are few and in a temporary file
// otherwise. It owns no tables.
package spool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// maxMemory is how many bytes are kept without a file. Most skills are smaller.
const maxMemory = 1 << 20

// A Spool is first written by one goroutine, and then read by any number of
// them. Reading after Close fails with os.ErrClosed.
type Spool struct {
	mem  []byte
	file *os.File
	// named is whether the file still has a name, which Close must remove.
	named  bool
	size   int64
	err    error
	closed atomic.Bool
}

// New returns a spool for about the expected number of bytes; negative if that
// is not known. The right number saves growing the buffer: mime/multipart's
// ReadForm, which cannot know it, makes publishing 12 % slower (bench publish).
func New(expected int64) *Spool {
	return &Spool{mem: make([]byte, 0, min(max(expected, 0), maxMemory))}
}

// Fill returns a spool of what write writes; see New for the expected number of bytes. The
// caller closes it.
func Fill(expected int64, write func(io.Writer) error) (*Spool, error) {
	s := New(expected)
	w := bufio.NewWriterSize(s, 64<<10) // a compressor writes some hundred bytes at a time
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		_ = s.Close() // the first error is the cause
		return nil, err
	}
	return s, nil
}

// Size is the number of bytes written.
func (s *Spool) Size() int64 { return s.size }

// InFile reports whether the bytes are in a file.
func (s *Spool) InFile() bool { return s.file != nil }

// Err is the first error of a write. It comes from the disk, never from the
// source of the bytes.
func (s *Spool) Err() error { return s.err }

// Write implements io.Writer.
func (s *Spool) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.write(p)
	s.size += int64(n)
	s.err = fault.Disk(err)
	return n, s.err
}

func (s *Spool) write(p []byte) (int, error) {
	if s.file != nil {
		return s.file.Write(p)
	}
	if len(s.mem)+len(p) <= maxMemory {
		s.mem = append(s.mem, p...)
		return len(p), nil
	}
	if err := s.spill(); err != nil {
		return 0, err
	}
	return s.file.Write(p)
}

// spill moves the content from memory to a file.
func (s *Spool) spill() error {
	f, err := os.CreateTemp("", "whetstone-spool-*")
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	// A file without a name cannot outlive the process. Where an open file
	// cannot be removed (Windows), Close does it.
	s.named = os.Remove(f.Name()) != nil
	s.file = f
	if _, err := f.Write(s.mem); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	s.mem = nil
	return nil
}

// ReadAt implements io.ReaderAt.
func (s *Spool) ReadAt(p []byte, off int64) (int, error) {
	if s.closed.Load() {
		return 0, os.ErrClosed
	}
	if s.file != nil {
		return s.file.ReadAt(p, off)
	}
	if off > int64(len(s.mem)) {
		return 0, io.EOF
	}
	n := copy(p, s.mem[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Reader returns a reader of all bytes.
func (s *Spool) Reader() *io.SectionReader { return io.NewSectionReader(s, 0, s.size) }

// Close removes the file, if there is one. Closing twice is not an error, nor is closing
// a nil spool.
func (s *Spool) Close() error {
	if s == nil || s.closed.Swap(true) || s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.named {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}
