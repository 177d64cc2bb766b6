package backup

import (
	"context"
	"os"
	"path/filepath"
)

// SaveFile is Save into a file, which appears under its name when it is whole
// and safe on the disk.
func SaveFile(ctx context.Context, p Place, name string) (_ Manifest, _ int64, err error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".unfinished-*")
	if err != nil {
		return Manifest{}, 0, err
	}
	defer func() {
		_ = file.Close() // a second time if all went well
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	m, err := Save(ctx, p, file)
	if err != nil {
		return Manifest{}, 0, err
	}
	info, err := file.Stat()
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
	return m, info.Size(), syncDir(filepath.Dir(name))
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the operator's own
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
