//go:build unix

// Package flock has advisory locks on files, between processes. The kernel releases
// a lock when its process ends, however it ends.
package flock

import (
	"errors"
	"os"
	"syscall"
)

// Try locks the file exclusively for this process, until Release or the
// process ends. It does not wait: it reports false if another process has the lock.
func Try(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // descriptors are small
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Release unlocks the file and closes it. Closing alone would leave the lock to a child
// process that is being started, which has a copy of the descriptor until it executes.
func Release(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close()) // descriptors are small
}
