//go:build unix

package install

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the file for this process, until it is closed or the process
// ends. It reports false if another process has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // descriptors are small
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
