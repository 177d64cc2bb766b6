package config

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// MakeData creates the data folder, accessible to its owner only, and checks that
// it can be written.
func (d *Database) MakeData() error {
	if err := os.MkdirAll(d.Data, 0o700); err != nil {
		return d.explain(err)
	}
	return d.CheckWritable()
}

// CheckWritable fails, with an explanation, if this process cannot write to the
// data folder. Permissions alone don't tell: a file system may be read-only, or full.
func (d *Database) CheckWritable() error {
	probe, err := os.CreateTemp(d.Data, ".probe-*")
	if err != nil {
		return d.explain(err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// explain says what to do about a data folder that cannot be created or written. These are the
// most frequent failures of a first start, mostly in containers with a volume of root's.
func (d *Database) explain(err error) error {
	const advice = "; or name another folder with --data"
	switch {
	case errors.Is(err, syscall.EROFS):
		return fault.Invalid("data", "data: folder %s is on a read-only file system: mount it for writing%s", d.Data, advice)
	case errors.Is(err, fs.ErrPermission):
		name := strconv.Itoa(os.Getuid())
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
		return fault.Invalid("data", "data: folder %s is read-only for user %s: give it to that user (chown)%s",
			d.Data, name, advice)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Invalid("data", "data: the disk of folder %s is full: make room%s", d.Data, advice)
	}
	return fault.Invalid("data", "data: folder %s cannot be used: %s", d.Data, err)
}

// KeepsData reports whether this process writes SQLite or blobs in files, which no other
// process may write at the same time.
func (c *Config) KeepsData() bool {
	return c.DatabaseURL == "" || strings.HasPrefix(string(c.DatabaseURL), "sqlite:") || c.BlobURL == ""
}

// ReserveBytes is the free space to keep on the disk of the data folder; 0 if
// the service writes nothing there.
func (c *Config) ReserveBytes() uint64 {
	if c.DatabaseURL != "" && c.BlobURL != "" {
		return 0
	}
	return uint64(c.DiskReserve) // it is not negative
}
