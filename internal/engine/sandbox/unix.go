//go:build unix

package sandbox

import (
	"io/fs"
	"math"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// allocated is the disk space of a file: less than its size if it is sparse.
func allocated(info fs.FileInfo) int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	return stat.Blocks * 512
}

// freeSpace is the free space of a folder's file system, in bytes.
func freeSpace(dir string) int64 {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil || stat.Blocks == 0 {
		return math.MaxInt64 // unknown
	}
	return int64(stat.Bavail) * int64(stat.Bsize) //nolint:unconvert // its type depends on the system
}

// newProcessGroup starts a program in a session of its own, so that it and its
// children can be signalled together.
func newProcessGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func terminateGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
