package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// none runs programs with the rights of the service. All it does for them is
// to clear the environment, set the limits that a process can set for itself,
// keep the time, and end the program's process group.
type none struct{}

// offer lets the kernel end the program before others should memory run out. The
// program can take it back.
const offer = "echo 1000 2>/dev/null >/proc/self/oom_score_adj; "

func (none) Binds() bool { return false }

func (n none) Run(ctx context.Context, spec Spec) (_ Result, err error) {
	defer fault.Wrap(&err, "no sandbox")
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if err := spec.check(false); err != nil {
		return Result{}, err
	}
	spec.Limits = spec.Limits.WithDefaults()
	private, err := os.MkdirTemp("", "whetstone-run-")
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, Remove(private)) }()
	defaults := Environment()
	defaults["HOME"], defaults["TMPDIR"] = private, private
	argv := launch(offer+launcher(spec.Limits, 1024, false), spec.Argv)
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Env: spec.environment(defaults), Dir: spec.Dir}
	if cmd.Dir == "" {
		cmd.Dir = private
	}
	ownGroup(cmd)
	return attend(ctx, cmd, spec, hold{
		terminate: func() { _ = terminateGroup(cmd) }, // it may have ended
		kill:      func() { _ = killGroup(cmd) },
	})
}

func (n none) Check(ctx context.Context) (Report, error) {
	report := Report{
		Driver:  None,
		InForce: []string{"limits on time, file size, and the memory and processor time of each process", "cleared environment"},
		Missing: []string{"foreign programs run with all rights of the service: they can read its data, reach the network and outlive their run"},
	}
	_, err := n.Run(ctx, Spec{Argv: []string{"true"}})
	return report, err
}
