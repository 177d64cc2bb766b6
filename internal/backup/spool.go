package backup

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/whetstone-dev/whetstone/internal/blob"
)

// A spool keeps many keys in a file without a name.
type spool struct {
	file *os.File
	w    *bufio.Writer
}

func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "whetstone-backup-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &spool{file, bufio.NewWriter(file)}, nil
}

func (s *spool) add(r blob.Ref) error {
	_, err := s.w.WriteString(r.Key + "\n") // a key holds no control characters
	return err
}

// each hands every key to fn.
func (s *spool) each(fn func(key string) error) error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewScanner(s.file)
	for lines.Scan() {
		if err := fn(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (s *spool) close() { _ = s.file.Close() }
