// Package spool keeps bytes that come once, to be read anywhere and again: in
// memory while they are few, in a temporary file otherwise. It owns no tables.
package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// memory is how many bytes are kept without a file. Most skills are smaller, so
// that a disk is touched for the few large ones only.
const memory = 1 << 20

// A Spool is first written by one goroutine and then read by any number of
// them. Whoever makes it closes it; a reader that comes later is told so.
type Spool struct {
	mem  []byte
	file *os.File
	// named says that the file still has a name, which Close must remove.
	named bool
	size  int64
	err   error

	// reading keeps the memory from being used again while somebody reads it:
	// a request that was given up may still be sending.
	reading sync.RWMutex
	closed  bool
}

// freed are what closed spools had in memory. One that grew into a file leaves
// nothing here.
var freed = sync.Pool{New: func() any { return new([]byte) }}

// New returns a spool for about so many bytes; a negative number means that
// nobody knows.
func New(expected int64) *Spool {
	mem := *freed.Get().(*[]byte)
	return &Spool{mem: slices.Grow(mem[:0], int(min(max(expected, 0), memory)))}
}

// Size is how many bytes were written.
func (s *Spool) Size() int64 { return s.size }

// Err is the first failure to write. It is the disk's, not that of whoever sent
// the bytes.
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
	if len(s.mem)+len(p) <= memory {
		s.mem = append(s.mem, p...)
		return len(p), nil
	}
	if err := s.spill(); err != nil {
		return 0, err
	}
	return s.file.Write(p)
}

// spill moves what is in memory to a file.
func (s *Spool) spill() error {
	f, err := os.CreateTemp("", "whetstone-spool-*")
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	// Without a name the file cannot outlive the process. Where an open file
	// cannot be removed, Close does it.
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
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.closed {
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

// Close frees the memory and the file. Closing twice is not an error.
func (s *Spool) Close() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	mem := s.mem
	s.mem = nil
	if s.file == nil {
		freed.Put(&mem)
		return nil
	}
	err := s.file.Close()
	if s.named {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}
