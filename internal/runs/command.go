package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/runs/workdir"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/suites"
	"github.com/whetstone-dev/whetstone/internal/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/suites/verify"
)

// The paths of the skill and of the working folder in a sandbox with bind
// mounts. In every sandbox the variables SKILL_DIR and WORK_DIR hold them.
const (
	skillTarget = "/skill"
	workTarget  = "/work"
)

// Exit statuses of a shell that could not run a program.
const (
	notExecutable = 126
	notFound      = 127
)

// command runs the command of a case in the sandbox, with the skill mounted and
// an empty working folder.
func (x *execution) command(ctx context.Context, c suites.Case, t *Trial) (s verify.Sample, err error) {
	work, err := os.MkdirTemp(x.dir, "work-*")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, sandbox.Remove(work)) }()
	got, err := x.s.Sandbox.Run(ctx, x.spec(c, t.Arm, work))
	if err != nil {
		return s, err
	}
	s = verify.Sample{Output: string(got.Stdout.Tail), Duration: got.Duration, ExitCode: &got.ExitCode}
	t.Evidence.ExitCode = &got.ExitCode
	switch {
	case got.Exceeded == sandbox.WallLimit:
		return s, &defect{"timeout", "the command was ended: it took longer than it may"}
	case got.Exceeded != "":
		return s, &defect{"limit_exceeded", "the command was ended: it used more " + string(got.Exceeded) + " than it may"}
	case got.ExitCode == notExecutable, got.ExitCode == notFound:
		return s, x.notStarted(ctx, c, got)
	case got.Stdout.Discarded > 0:
		return s, &defect{"output_too_large", "the command wrote more than is kept of an output"}
	}
	if c.Kind == suites.BooleanAssertion {
		s.Files, err = workdir.ReadFiles(work)
	}
	return s, err
}

// notStarted decides what an exit status of 126 or 127 means: a problem of the
// case if its program is not installed here, else a defect of the skill or of
// what the command calls.
func (x *execution) notStarted(ctx context.Context, c suites.Case, got sandbox.Result) error {
	const code = "command_not_started"
	program := c.Subject.Command[0]
	mounted := strings.HasPrefix(program, skillTarget+"/") || strings.HasPrefix(program, workTarget+"/")
	if !strings.Contains(program, "/") || path.IsAbs(program) && !mounted {
		found, err := sandbox.Finds(ctx, x.s.Sandbox, program)
		if err != nil {
			return err
		}
		if !found {
			return &Problem{
				Code: code, Message: fmt.Sprintf("there is no program %q on the machine that runs the cases", Truncate(program)),
			}
		}
	}
	wrote := strings.TrimSpace(string(got.Stderr.Tail))
	wrote = tail(wrote[strings.LastIndexByte(wrote, '\n')+1:], maxText/2)
	return &defect{code, fmt.Sprintf("the command, or one that it calls, could not be run (status %d); it wrote %q",
		got.ExitCode, wrote)}
}

// spec describes the sandbox of a command. The skill is mounted read-only: trials
// share it, and one must not change it for the others.
func (x *execution) spec(c suites.Case, arm Arm, work string) sandbox.Spec {
	workAt, skillAt, skillDir := workTarget, skillTarget, x.skills[arm].dir
	if !x.s.Sandbox.Binds() {
		workAt, skillAt = work, skillDir
	}
	spec := sandbox.Spec{
		Argv: c.Subject.Command, Dir: workAt,
		Env:    map[string]string{"WORK_DIR": workAt, "SKILL_MODE": "no_skill"},
		Mounts: []sandbox.Mount{{Source: work, Target: workAt, Writable: true}},
		Limits: commandLimits(x.resources),
	}
	if skillDir != "" {
		spec.Env["SKILL_MODE"], spec.Env["SKILL_DIR"] = "with_skill", skillAt
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: skillDir, Target: skillAt})
	}
	return spec
}

// maxOutput bounds a command's output, which is kept in memory and passed to an
// assertion. A real result is far smaller.
const maxOutput = 1 << 20

// commandLimits are the limits of a command: the suite's, and no more than the
// machine gives.
func commandLimits(r taskfile.Resources) sandbox.Limits {
	r = r.AtMost(taskpkg.Machine())
	return sandbox.Limits{
		Wall: r.Timeout, CPUs: r.CPUs, Memory: r.Memory, Disk: r.Storage, Processes: r.Processes, Output: maxOutput,
	}
}
