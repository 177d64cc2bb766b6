package sandbox

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// An initProcess is PID 1 of the sandbox's PID namespace. When it ends, the
// kernel kills all other processes in it. A pidfd refers to it, which unlike a
// PID is never reused.
type initProcess struct{ pid, fd int }

func newInitProcess(pid int) (*initProcess, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("sandbox process: %w", err)
	}
	return &initProcess{pid: pid, fd: fd}, nil
}

// terminate sends SIGTERM to the process group of the program. Processes that
// made a session of their own do not get it, and PID 1, the group's leader,
// ignores it.
func (i *initProcess) terminate() error {
	// Signal 0 only asks whether the process is alive. The process group has no pidfd, so its
	// number is used right after.
	if err := unix.PidfdSendSignal(i.fd, 0, nil, 0); err != nil {
		return err
	}
	return unix.Kill(-i.pid, unix.SIGTERM)
}

// kill kills everything in the sandbox.
func (i *initProcess) kill() {
	_ = unix.PidfdSendSignal(i.fd, unix.SIGKILL, nil, 0) // it may have ended
}

// killAndWait kills everything in the sandbox and waits until it has ended.
func (i *initProcess) killAndWait() error {
	i.kill()
	until := time.Now().Add(stopTimeout)
	for time.Now().Before(until) {
		fds := []unix.PollFd{{Fd: int32(i.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(time.Until(until).Milliseconds())+1)
		if n > 0 {
			return nil
		}
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("waiting for the sandbox: %w", err)
		}
	}
	return fmt.Errorf("process %d of the sandbox cannot be ended", i.pid)
}

func (i *initProcess) close() { _ = unix.Close(i.fd) }
