package datadir

import "golang.org/x/sys/unix"

// Space returns how many bytes an unprivileged user may still write at a path,
// and the size of its file system.
func Space(path string) (free, total uint64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, 0, err
	}
	size := uint64(stat.Bsize) // a block has a size
	return stat.Bavail * size, stat.Blocks * size, nil
}
