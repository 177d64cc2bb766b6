//go:build !linux

package servertest

import "syscall"

// processOf is a process of a user, or of the test's own if that is nil. Here
// the system does not promise to end it with a test that is killed.
func processOf(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: user}
}
