package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/workdir"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// The paths of the skill and of the working folder in a sandbox with bind
// mounts. In every sandbox the variables SKILL_DIR and WORK_DIR hold them.
const (
	skillTarget = "/skill"
	workTarget  = "/work"
)

// Exit statuses of a shell that could not run a program.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// A commandRequest is a command to run.
type commandRequest struct {
	Sandbox sandbox.Sandbox
	Argv    []string
	// Dir is the run's folder, in which the working folder is created. SkillDir has the
	// skill's files; "" in the arm without the skill.
	Dir, SkillDir string
	// Most is the most that the program may use; zero fields mean the defaults.
	Most taskfile.Resources
	// Files asks for the files that the command leaves, for graders that read them.
	Files bool
}

// runCommand runs a command in an empty working folder. The error is an *attempt.Defect if
// the trial fails, and an *attempt.Problem if it has no verdict.
func runCommand(ctx context.Context, r commandRequest) (s verify.Sample, err error) {
	work, err := os.MkdirTemp(r.Dir, "work-*")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, sandbox.Remove(work)) }()
	got, err := r.Sandbox.Run(ctx, r.spec(work))
	if err != nil {
		return s, err
	}
	s = verify.Sample{Output: string(got.Stdout.Tail), Duration: got.Duration, ExitCode: &got.ExitCode}
	switch {
	case got.Exceeded == sandbox.WallLimit:
		return s, attempt.NewDefect("timeout", "the command was ended: it took longer than it may")
	case got.Exceeded != "":
		return s, attempt.NewDefect("limit_exceeded", "the command was ended: it used more "+string(got.Exceeded)+" than it may")
	case got.ExitCode == exitNotExecutable, got.ExitCode == exitNotFound:
		return s, r.notStarted(ctx, got)
	// A check must not decide on part of an output.
	case got.Stdout.Discarded > 0:
		return s, attempt.NewDefect("output_too_large", "the command wrote more than is kept of an output")
	}
	if r.Files {
		s.Files, err = workdir.ReadFiles(work)
	}
	return s, err
}

// notStarted decides what exit status 126 or 127 means: a problem of the case if its
// program isn't installed on this machine, else a defect of the skill or of what the
// command calls.
func (r commandRequest) notStarted(ctx context.Context, got sandbox.Result) error {
	const code = "command_not_started"
	program := r.Argv[0]
	// A program below a mount comes with the skill, so a missing one is the skill's
	// fault.
	mounted := strings.HasPrefix(program, skillTarget+"/") || strings.HasPrefix(program, workTarget+"/")
	if !strings.Contains(program, "/") || path.IsAbs(program) && !mounted {
		found, err := sandbox.Finds(ctx, r.Sandbox, program)
		if err != nil {
			return err
		}
		if !found {
			return &attempt.Problem{
				Code: code, Message: fmt.Sprintf("there is no program %q on the machine that runs the cases",
					text.Clean(text.Truncate(program, 2*maxStartError))),
			}
		}
	}
	wrote := strings.TrimSpace(string(got.Stderr.Tail))
	wrote = text.Clean(text.Tail(wrote[strings.LastIndexByte(wrote, '\n')+1:], maxStartError))
	return attempt.NewDefect(code, fmt.Sprintf("the command, or one that it calls, could not be run (status %d); it wrote %q",
		got.ExitCode, wrote))
}

// spec describes the sandbox of a command. The skill is mounted read-only: trials
// share it, and one must not change it for the others.
func (r commandRequest) spec(work string) sandbox.Spec {
	workAt, skillAt, skillDir := workTarget, skillTarget, r.SkillDir
	// Without bind mounts the program sees the paths of the machine.
	if !r.Sandbox.Binds() {
		workAt, skillAt = work, skillDir
	}
	spec := sandbox.Spec{
		Argv: r.Argv, Dir: workAt,
		Env:    map[string]string{"WORK_DIR": workAt, "SKILL_MODE": "no_skill"},
		Mounts: []sandbox.Mount{{Source: work, Target: workAt, Writable: true}},
		Limits: commandLimits(r.Most),
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

// maxStartError is how many bytes of stderr's last line are shown for a command that
// did not start.
const maxStartError = 512

// commandLimits returns the sandbox limits of a command: what the suite allows, capped
// at what the machine has.
func commandLimits(r taskfile.Resources) sandbox.Limits {
	r = r.AtMost(taskpkg.Machine())
	return sandbox.Limits{
		Wall: r.Timeout, CPUs: r.CPUs, Memory: r.Memory, Disk: r.Storage, Processes: r.Processes, Output: maxOutput,
	}
}
