package sandbox

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// An initProcess is the first process of a sandbox, held in a way that cannot
// come to mean another process.
type initProcess struct{ pid, fd int }

func openInit(pid int) (*initProcess, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("sandbox process: %w", err)
	}
	return &initProcess{pid: pid, fd: fd}, nil
}

// terminate asks the program to end, and all it started that did not make a
// session of its own. The first process leads their group, and ignores the signal.
func (i *initProcess) terminate() error {
	if err := unix.PidfdSendSignal(i.fd, 0, nil, 0); err != nil {
		return err
	}
	return unix.Kill(-i.pid, unix.SIGTERM)
}

// kill ends everything in the sandbox.
func (i *initProcess) kill() {
	_ = unix.PidfdSendSignal(i.fd, unix.SIGKILL, nil, 0) // it may have ended
}

// killAndWait returns when nothing is left in the sandbox.
func (i *initProcess) killAndWait() error {
	i.kill()
	until := time.Now().Add(backstop)
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
