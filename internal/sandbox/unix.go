//go:build unix

package sandbox

import (
	"io/fs"
	"math"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// allocated is what a file takes on the disk: less than its size if it has
// holes.
func allocated(info fs.FileInfo) int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	return stat.Blocks * 512
}

// freeSpace is how many bytes a folder's file system has left.
func freeSpace(dir string) int64 {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil || stat.Blocks == 0 {
		return math.MaxInt64 // nothing can be said
	}
	return int64(stat.Bavail) * int64(stat.Bsize) //nolint:unconvert // its type depends on the system
}

// ownGroup lets a program and what it starts be signalled together.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func terminateGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
