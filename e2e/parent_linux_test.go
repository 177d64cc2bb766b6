package e2e_test

import (
	"os/exec"
	"syscall"
)

// dieWithParent keeps a test that is killed from leaving the server behind.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
