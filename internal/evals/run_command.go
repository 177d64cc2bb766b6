package evals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/suites/verify"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
)

// Where a command finds itself, in a sandbox that can show folders under other
// paths. Everywhere the variables SKILL_DIR and WORK_DIR say it.
const (
	skillTarget = "/skill"
	workTarget  = "/work"
)

// Statuses by which a shell says that a program could not be run.
const (
	notExecutable = 126
	notFound      = 127
)

// command runs a program in the sandbox: the skill is mounted, and the working
// folder is its own.
func (x *execution) command(ctx context.Context, c Case, t *Trial) (s verify.Sample, err error) {
	work, err := os.MkdirTemp(x.folder, "work-*")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, sandbox.Remove(work)) }()
	got, err := x.s.Sandbox.Run(ctx, x.spec(c, t.Variant, work))
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
	if c.Kind == BooleanAssertion {
		s.Files, err = readFiles(work)
	}
	return s, err
}

// notStarted says who it was that a command ended with 126 or 127: the case, if
// its program is not on this machine, else the skill or what the command calls.
func (x *execution) notStarted(ctx context.Context, c Case, got sandbox.Result) error {
	const code = "command_not_started"
	program := c.Subject.Command[0]
	mounted := strings.HasPrefix(program, skillTarget+"/") || strings.HasPrefix(program, workTarget+"/")
	if !strings.Contains(program, "/") || path.IsAbs(program) && !mounted {
		found, err := sandbox.Finds(ctx, x.s.Sandbox, program)
		if err != nil {
			return err
		}
		if !found {
			return &problem{code, fmt.Sprintf("there is no program %q on the machine that runs the cases", beginning(program))}
		}
	}
	wrote := strings.TrimSpace(string(got.Stderr.Tail))
	wrote = tail(wrote[strings.LastIndexByte(wrote, '\n')+1:], maxRaw/2)
	return &defect{code, fmt.Sprintf("the command, or one that it calls, could not be run (status %d); it wrote %q",
		got.ExitCode, wrote)}
}

func (x *execution) spec(c Case, v Variant, work string) sandbox.Spec {
	workAt, skillAt, folder := workTarget, skillTarget, x.skills[v].folder
	if !x.s.Sandbox.Binds() {
		workAt, skillAt = work, folder
	}
	spec := sandbox.Spec{
		Argv: c.Subject.Command, Dir: workAt,
		Env:    map[string]string{"WORK_DIR": workAt, "SKILL_MODE": "no_skill"},
		Mounts: []sandbox.Mount{{Source: work, Target: workAt, Writable: true}},
		Limits: sandbox.Limits{Output: maxOutput},
	}
	if folder != "" {
		spec.Env["SKILL_MODE"], spec.Env["SKILL_DIR"] = "with_skill", skillAt
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: folder, Target: skillAt})
	}
	return spec
}

// What is read of a command's output and files.
const (
	maxOutput    = 1 << 20
	maxFiles     = 1_000
	maxFile      = 64 << 10
	maxFileBytes = 1 << 20
)

// readFiles reads the regular files that a command left, by their paths, of
// each the beginning. It follows no links: a program put them there.
func readFiles(folder string) (_ map[string]string, err error) {
	if err := os.Chmod(folder, 0o700); err != nil { // the command could have closed it
		return nil, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	all, left := map[string]string{}, maxFileBytes
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // what cannot be read is not listed
		}
		if len(all) == maxFiles {
			return fs.SkipAll
		}
		text := readHead(root, path, min(maxFile, left))
		all[path], left = text, left-len(text)
		return nil
	})
	return all, err
}

// readHead reads the beginning of a file; what cannot be read is empty.
func readHead(root *os.Root, path string, size int) string {
	f, err := root.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	content, _ := io.ReadAll(io.LimitReader(f, int64(size))) // as much as there is
	return strings.ToValidUTF8(string(content), "\uFFFD")
}
