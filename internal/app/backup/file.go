package backup

import (
	"context"
	"os"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/base/fsync"
)

// SaveFile is Save into a file. The write is atomic and durable: the file gets its
// name after it was written completely and synced (fsync). The temporary file is in the same
// folder, since a rename works within a file system only.
func SaveFile(ctx context.Context, p Place, name string) (_ Manifest, size int64, err error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".unfinished-*")
	if err != nil {
		return Manifest{}, 0, err
	}
	defer func() {
		_ = file.Close() // again if all went well
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	m, size, err := Save(ctx, p, file)
	if err != nil {
		return Manifest{}, 0, err
	}
	if err := file.Sync(); err != nil {
		return Manifest{}, 0, err
	}
	if err := file.Close(); err != nil {
		return Manifest{}, 0, err
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return Manifest{}, 0, err
	}
	// The new name must survive a crash as well.
	return m, size, fsync.Dir(filepath.Dir(name))
}
