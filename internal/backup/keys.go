package backup

import (
	"bufio"
	"errors"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/blob"
)

// A keySet remembers keys in eight bytes each: two of a billion keys are taken
// for one another once in 37 backups.
type keySet struct {
	seed   maphash.Seed
	hashes []uint64
	sorted bool
}

func (k *keySet) add(key string) {
	if k.hashes == nil {
		k.seed = maphash.MakeSeed()
	}
	k.hashes, k.sorted = append(k.hashes, maphash.String(k.seed, key)), false
}

func (k *keySet) has(key string) bool {
	if k.hashes == nil {
		return false
	}
	if !k.sorted {
		slices.Sort(k.hashes)
		k.sorted = true
	}
	_, ok := slices.BinarySearch(k.hashes, maphash.String(k.seed, key))
	return ok
}

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
