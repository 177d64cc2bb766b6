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

// stopTimeout is how long killed processes may take to disappear.
const stopTimeout = 10 * time.Second

// A stopper ends what a command has started: terminate sends SIGTERM, kill
// SIGKILL.
type stopper struct{ terminate, kill func() }

// runCommand runs a command for the drivers docker and none. It enforces the
// wall clock timeout and the disk limit; the other limits are set by the driver. The loop goes on
// after it has stopped the program, until Wait returns: pipes may have data left.
func runCommand(ctx context.Context, cmd *exec.Cmd, spec Spec, s stopper) (Result, error) {
	stdout, stderr := Tail{Limit: spec.Limits.Output}, Tail{Limit: spec.Limits.Output}
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
	done, stop := ctx.Done(), spec.Stop
	for {
		select {
		case err := <-waited:
			s.kill() // processes that it left behind
			// A result that the end of the context may have caused is none.
			if ctx.Err() != nil {
				return Result{}, context.Cause(ctx)
			}
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
				return Result{}, err
			}
			result := Result{
				ExitCode: exitCode(cmd.ProcessState), Exceeded: exceeded,
				Stdout: stdout.Output(), Stderr: stderr.Output(), Duration: time.Since(started),
			}
			return result, checkSpace(result, spec.Mounts)
		case <-done:
			// A closed channel would be ready for ever.
			done = nil
			s.kill()
		case <-wall.C:
			exceeded, grace = cmp.Or(exceeded, WallLimit), time.After(spec.Limits.Grace)
			s.terminate()
		case <-stop:
			stop = nil
			exceeded, grace = cmp.Or(exceeded, Stopped), time.After(spec.Limits.Grace)
			s.terminate()
		case <-disk.C:
			checked := time.Now()
			if exceedsDisk(spec.Mounts, spec.Limits) {
				exceeded = cmp.Or(exceeded, DiskLimit)
				s.kill()
				continue
			}
			disk.Reset(max(diskInterval, diskPauseFactor*time.Since(checked)))
		case <-grace:
			s.kill()
		}
	}
}

// exitCode returns a status as a shell does: 128+n for signal n.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
