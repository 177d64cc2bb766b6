//go:build !linux

package datadir

import "errors"

// Space is only implemented on Linux.
func Space(string) (free, total uint64, err error) {
	return 0, 0, errors.New("free space is only known on Linux")
}
