//go:build unix

// Package flock locks files between processes. The kernel releases a lock when
// its process ends, however it ends.
package flock

import (
	"errors"
	"os"
	"syscall"
)

// Try takes the file for this process, until it is closed or the process
// ends. It reports false if another process has it.
func Try(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // descriptors are small
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
