package sandbox

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/spawn"
)

// none runs programs with the rights of the service. It only clears the
// environment, sets rlimits, enforces the wall clock timeout and the disk limit,
// and kills the program's process group.
type none struct{}

// raiseOOMScore raises oom_score_adj, so that the OOM killer picks the program
// first. The program can lower it again.
const raiseOOMScore = "echo 1000 2>/dev/null >/proc/self/oom_score_adj; "

func (none) Binds() bool { return false }

// Run gives the program a new folder as its home, so that it neither sees nor changes the service's
// settings.
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
	// Without a namespace RLIMIT_NPROC would count all processes of the service's user, so it isn't
	// set.
	argv := launch(raiseOOMScore+limitScript(spec.Limits, 1024, false), spec.Argv)
	// runCommand ends the whole process group when ctx ends.
	cmd := spawn.Command(context.WithoutCancel(ctx), spec.environment(defaults), argv[0], argv[1:]...)
	cmd.Dir = cmp.Or(spec.Dir, private)
	newProcessGroup(cmd)
	return runCommand(ctx, cmd, spec, stopper{
		terminate: func() { _ = terminateGroup(cmd) }, // it may have ended
		kill:      func() { _ = killGroup(cmd) },
	})
}

func (n none) Check(ctx context.Context) (Report, error) {
	report := Report{
		Driver: None,
		InForce: []string{
			"limits on time, file size, and the memory and processor time of each process",
			"cleared environment",
		},
		Missing: []string{
			"programs of eval cases run with all rights of the service: " +
				"they can read its data, reach the network and outlive their run",
		},
	}
	_, err := n.Run(ctx, Spec{Argv: []string{"true"}})
	return report, err
}
