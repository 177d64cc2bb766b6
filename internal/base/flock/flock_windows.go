package flock

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

const (
	failImmediately = 1
	exclusive       = 2
	// lockViolation is ERROR_LOCK_VIOLATION: another process has the lock.
	lockViolation = syscall.Errno(33)
)

// Try locks the file exclusively for this process, until Release or the
// process ends. It does not wait: it reports false if another process has the lock.
func Try(f *os.File) (bool, error) {
	lock := syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")
	var where syscall.Overlapped
	ok, _, err := lock.Call(f.Fd(), exclusive|failImmediately, 0, 1, 0, uintptr(unsafe.Pointer(&where)))
	if ok != 0 {
		return true, nil
	}
	if errors.Is(err, lockViolation) {
		return false, nil
	}
	return false, err
}

// Release closes the file, which unlocks it.
func Release(f *os.File) error { return f.Close() }
