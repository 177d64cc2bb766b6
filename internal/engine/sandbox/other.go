//go:build !unix

package sandbox

import (
	"io/fs"
	"math"
	"os/exec"
)

func allocated(info fs.FileInfo) int64 { return info.Size() }

func freeSpace(string) int64 { return math.MaxInt64 } // unknown

func newProcessGroup(*exec.Cmd) {}

func terminateGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
