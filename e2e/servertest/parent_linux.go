package servertest

import "syscall"

// processOf are the attributes of a process of a user, or of the test's own if
// that is nil. The process is killed when the test process dies.
func processOf(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: user}
}
