package servertest

import "syscall"

// processOf is a process of a user, or of the test's own if that is nil. A test
// that is killed does not leave it behind.
func processOf(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: user}
}
