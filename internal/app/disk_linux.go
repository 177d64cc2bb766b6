package app

import "golang.org/x/sys/unix"

// diskSpace is how much an ordinary user may still write at a path, and how
// much there is in all.
func diskSpace(path string) (free, total uint64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, 0, err
	}
	size := uint64(stat.Bsize) //nolint:gosec // a block has a size
	return stat.Bavail * size, stat.Blocks * size, nil
}
