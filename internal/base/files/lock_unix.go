//go:build unix

package files

import (
	"errors"
	"os"
	"syscall"
)

// TryLock locks the file exclusively for this process, until Unlock or the process ends,
// however it ends. It does not wait: it reports false if another process has the lock.
func TryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // descriptors are small
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Unlock unlocks the file and closes it. Closing alone would leave the lock to a child
// process that is being started, which has a copy of the descriptor until it executes.
func Unlock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close()) // descriptors are small
}
