package skillpkg

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// spoolMemory is how much of a package is kept in memory. Most skills are
// smaller, so that a disk is touched for the few large ones only.
const spoolMemory = 1 << 20

// A spool keeps bytes that were written once to be read anywhere: in memory
// while they are few, in a temporary file otherwise.
type spool struct {
	mem  []byte
	file *os.File
	// named says that the file still has a name, which Close must remove.
	named  bool
	closed bool
	size   int64
	// err is the first failure to write, which is ours and not the archive's.
	err error
}

// spools are what closed ones had in memory. Most packages are small, and one
// that was not leaves nothing here.
var spools = sync.Pool{New: func() any { return new([]byte) }}

// newSpool returns a spool for about so many bytes.
func newSpool(expected int64) *spool {
	mem := *spools.Get().(*[]byte)
	return &spool{mem: slices.Grow(mem[:0], int(min(expected, spoolMemory)))}
}

func (s *spool) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.write(p)
	s.size += int64(n)
	s.err = err
	return n, err
}

func (s *spool) write(p []byte) (int, error) {
	if s.file != nil {
		return s.file.Write(p)
	}
	if len(s.mem)+len(p) <= spoolMemory {
		s.mem = append(s.mem, p...)
		return len(p), nil
	}
	if err := s.spill(); err != nil {
		return 0, err
	}
	return s.file.Write(p)
}

// spill moves what is in memory to a file.
func (s *spool) spill() error {
	f, err := os.CreateTemp("", "skillpkg-*")
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

func (s *spool) ReadAt(p []byte, off int64) (int, error) {
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
func (s *spool) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	mem := s.mem
	s.mem = nil
	if s.file == nil {
		spools.Put(&mem)
		return nil
	}
	err := s.file.Close()
	if s.named {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}
