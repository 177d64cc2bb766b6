//go:build !linux

package servertest

import "syscall"

// processOf are the attributes of a process of a user, or of the test's own if
// that is nil. On this system the process may outlive a test that is killed.
func processOf(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: user}
}
