package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// backstop is how long an end may take that cannot be put off.
const backstop = 10 * time.Second

// A hold is how a driver ends what a command has started.
type hold struct{ terminate, kill func() }

// attend starts a command and sees it to its end, for drivers that leave all
// limits but the clock and the disk to others. The command's streams are its own.
func attend(ctx context.Context, cmd *exec.Cmd, spec Spec, h hold) (Result, error) {
	stdout, stderr := tail{limit: spec.Limits.Output}, tail{limit: spec.Limits.Output}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(spec.Stdin), &stdout, &stderr
	cmd.WaitDelay = spec.Limits.Grace
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return Result{}, err
	}
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()

	wall := time.NewTimer(spec.Limits.Wall)
	defer wall.Stop()
	disk := time.NewTimer(diskInterval)
	defer disk.Stop()
	var exceeded Limit
	var grace <-chan time.Time
	done := ctx.Done()
	for {
		select {
		case err := <-waited:
			h.kill() // what it left behind
			if ctx.Err() != nil {
				return Result{}, context.Cause(ctx)
			}
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
				return Result{}, err
			}
			result := Result{
				ExitCode: exitCode(cmd.ProcessState), Exceeded: exceeded,
				Stdout: stdout.output(), Stderr: stderr.output(), Duration: time.Since(started),
			}
			return result, checkSpace(result, spec.Mounts)
		case <-done:
			done = nil
			h.kill()
		case <-wall.C:
			exceeded, grace = cmp.Or(exceeded, WallLimit), time.After(spec.Limits.Grace)
			h.terminate()
		case <-disk.C:
			looked := time.Now()
			if mountsOver(spec.Mounts, spec.Limits) {
				exceeded = cmp.Or(exceeded, DiskLimit)
				h.kill()
				continue
			}
			disk.Reset(max(diskInterval, diskShare*time.Since(looked)))
		case <-grace:
			h.kill()
		}
	}
}

// exitCode returns a status as a shell has it.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
