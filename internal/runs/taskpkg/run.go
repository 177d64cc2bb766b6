package taskpkg

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// A trial is one run of a task.
type trial struct {
	runner *Runner
	task   Task
	skill  *skillpkg.Package // nil for the variant no_skill

	dir  string   // all that the trial has, on this machine
	host string   // the task's root, on this machine
	root *os.Root // the same

	// Where the programs see the task's root, their home and temporary folder.
	inside, insideHome, insideTmp string
	// scratch are the mounts of a temporary folder, and of a home that is not
	// at /root.
	scratch []sandbox.Mount

	// tests and solution are the folders of the archive that stand at /tests
	// and /solution, or "". A program could make another one.
	tests, solution string
	// aside are the paths in the root that judge what the oracle does.
	aside []string

	env     map[string]string
	outcome Outcome
}

// insideRoot is where programs see the task's root if the sandbox binds.
const insideRoot = "/task"

// Run runs a task with a skill, or without one if it is nil: the variant
// no_skill. The skill stays the caller's. Whatever goes wrong is an outcome:
// what the programs bring about is Fail, for a skill could have made them, and
// what is not their doing is Error or Unsupported.
func (r *Runner) Run(ctx context.Context, task Task, skill *skillpkg.Package) Outcome {
	t := &trial{runner: r, task: task.withDefaults(), skill: skill}
	t.outcome.Limits, t.outcome.Version = r.limits(task), Version
	if err := t.run(ctx); err != nil {
		t.fail(ctx, err)
	}
	if err := t.remove(); err != nil {
		r.warn(ctx, "a trial's folder cannot be removed", err)
	}
	return t.outcome
}

func (t *trial) remove() (err error) {
	if t.root != nil {
		err = t.root.Close()
	}
	if t.dir != "" {
		err = errors.Join(err, sandbox.Remove(t.dir))
	}
	return err
}

func (r *Runner) warn(ctx context.Context, message string, err error) {
	if r.Log != nil {
		r.Log.WarnContext(ctx, message, "error", err)
	}
}

// fail turns an error into the outcome.
func (t *trial) fail(ctx context.Context, err error) {
	var known *failure
	var kind *fault.Error
	o := &t.outcome
	o.Verdict = Error
	switch {
	case errors.As(err, &known):
		o.Verdict, o.Code, o.Message = known.verdict, known.code, known.message
	case ctx.Err() != nil:
		o.Code, o.Message = Cancelled, "the trial was cancelled"
	case errors.As(err, &kind) && kind.Kind == fault.Unavailable:
		o.Code, o.Message = SandboxUnavailable, kind.Message
	default:
		o.Code, o.Message = SandboxFailed, "the trial could not be run; the server's log says why"
		t.runner.warn(ctx, "a trial could not be run", err)
	}
}

// run does the steps of the contract in their order.
func (t *trial) run(ctx context.Context) (err error) {
	if t.dir, err = t.runner.makeFolder(); err != nil {
		return err
	}
	if err := t.fetchAndUnpack(ctx); err != nil {
		return err
	}
	if err := t.checkPaths(); err != nil {
		return err
	}
	if err := t.mountSkill(ctx); err != nil {
		return err
	}
	if err := t.prepare(); err != nil {
		return err
	}
	t.chooseView()
	if t.env, err = t.environment(); err != nil {
		return err
	}
	if err := t.checkSupport(); err != nil {
		return err
	}
	verifier, err := t.script(t.task.VerifierRef)
	if err != nil {
		return failed(VerifierMissing, "there is no file %q in the archive", t.task.VerifierRef)
	}
	if err := t.runOracle(ctx); err != nil {
		return err
	}
	return t.runVerifier(ctx, verifier)
}

func (t *trial) fetchAndUnpack(ctx context.Context) (err error) {
	archive, err := os.OpenFile(filepath.Join(t.dir, archiveFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close(), os.Remove(archive.Name())) }()
	if t.outcome.Digest, err = t.runner.fetch(ctx, t.task, archive); err != nil {
		return err
	}
	return t.unpack(ctx, archive)
}

// chooseView says where programs see their folders.
func (t *trial) chooseView() {
	t.inside, t.insideHome, t.insideTmp = t.host, filepath.Join(t.dir, homeDir), filepath.Join(t.dir, tmpDir)
	if t.runner.Sandbox.Binds() {
		t.inside, t.insideHome, t.insideTmp = insideRoot, "/root", "/tmp"
		t.scratch = []sandbox.Mount{writable(filepath.Join(t.dir, tmpDir), t.insideTmp)}
		return
	}
	t.scratch = []sandbox.Mount{writable(t.insideHome, t.insideHome), writable(t.insideTmp, t.insideTmp)}
}

func (t *trial) runOracle(ctx context.Context) error {
	if t.task.OracleRef == "" {
		return nil
	}
	oracle, err := t.script(t.task.OracleRef)
	if err != nil {
		return failed(OracleFailed, "there is no file %q in the archive", t.task.OracleRef)
	}
	if err := t.setAside(); err != nil {
		return err
	}
	result, err := t.execute(ctx, oracle.argv)
	if err != nil {
		return err
	}
	if result.Exceeded != "" {
		return lost(OracleFailed, "the oracle was ended: %s", exceeded(result.Exceeded).message)
	}
	if err := t.checkStarted(ctx, oracle, result, OracleFailed); err != nil {
		return err
	}
	if result.ExitCode != 0 {
		return lost(OracleFailed, "the oracle ended with status %d", result.ExitCode)
	}
	if err := t.putBack(); err != nil {
		return err
	}
	if !t.isFolder(t.task.WorkingDir) {
		return lost(WorkdirMissing, "the oracle removed the working folder %q", t.task.WorkingDir)
	}
	if err := t.makeFolders(t.task.WorkingDir); err != nil { // the verifier must be able to enter it
		return err
	}
	if err := t.freshScratch(); err != nil {
		return err
	}
	return t.freshLogs()
}

func (t *trial) runVerifier(ctx context.Context, verifier script) error {
	result, err := t.execute(ctx, verifier.argv)
	if err != nil {
		return err
	}
	if result.Exceeded != "" {
		return exceeded(result.Exceeded)
	}
	t.outcome.Report = readReport(t.root)
	given, found, err := readReward(t.root)
	if err != nil {
		return err
	}
	if !found {
		if err := t.checkStarted(ctx, verifier, result, VerifierNotStarted); err != nil {
			return err
		}
		if given, err = rewardOf(result); err != nil {
			return err
		}
	}
	t.judge(given)
	return nil
}

// rewardOf is the reward of a verifier that wrote none: its status tells,
// if it ran to an end.
func rewardOf(result sandbox.Result) (reward, error) {
	switch {
	case result.ExitCode == 0:
		return reward{raw: 1}, nil
	case result.ExitCode == notExecutable || result.ExitCode == notFound:
		return reward{}, lost(VerifierNotStarted, "a program that the verifier calls could not be started (status %d); it wrote %q",
			result.ExitCode, lastLine(result.Stderr.Tail))
	case result.Signal() != 0:
		return reward{}, lost(Signalled, "the verifier was ended by signal %d", result.Signal())
	}
	return reward{raw: 0}, nil
}

// Statuses by which a shell says that a program could not be run.
const (
	notExecutable = 126
	notFound      = 127
)

// checkStarted returns an error if a script's status says that a program could
// not be run, and that is the script's own interpreter: then this machine lacks
// it, and nothing of the task has run.
func (t *trial) checkStarted(ctx context.Context, s script, result sandbox.Result, code Code) error {
	if result.ExitCode != notExecutable && result.ExitCode != notFound {
		return nil
	}
	found, err := sandbox.Finds(ctx, t.runner.Sandbox, s.interpreter)
	if err != nil {
		return err
	}
	if !found {
		return failed(code, "there is no program %q on this machine, which is to run %s",
			s.interpreter, path.Base(s.argv[len(s.argv)-1]))
	}
	return nil
}

func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return strings.ToValidUTF8(string(text[bytes.LastIndexByte(text, '\n')+1:]), "?")
}

// exceeded says what passing a limit means.
func exceeded(limit sandbox.Limit) *failure {
	switch limit {
	case sandbox.WallLimit:
		return lost(Timeout, "it took longer than its timeout")
	case sandbox.MemoryLimit:
		return lost(OutOfMemory, "it took more memory than it may")
	default:
		return lost(OverLimit, "it took more than it may: %s", limit)
	}
}

// judge gives the verdict.
func (t *trial) judge(given reward) {
	o := &t.outcome
	o.Raw, o.Metrics = given.raw, given.metrics
	o.Score = min(max(given.raw, 0), 1)
	o.Verdict = Fail
	if o.Score >= t.task.Threshold {
		o.Verdict = Pass
	}
}

// A script is a file of the root and how to run it.
type script struct {
	argv        []string
	interpreter string // the program that reads it
}

// script returns how to run a file of the root: by itself if it is executable and
// says with what, else with bash.
func (t *trial) script(ref string) (s script, err error) {
	ref = path.Clean(ref)
	info, err := t.root.Lstat(ref)
	if err != nil {
		return s, err
	}
	if !info.Mode().IsRegular() || !t.isFolder(path.Dir(ref)) {
		return s, errors.New("not a regular file")
	}
	program := path.Join(t.inside, ref)
	f, err := t.root.Open(ref)
	if err != nil {
		return s, err
	}
	defer f.Close()
	start := make([]byte, 256) // more is not read by the kernel either
	n, _ := f.Read(start)      // an empty file is run by bash
	if line, ok := bytes.CutPrefix(start[:n], []byte("#!")); ok && info.Mode()&0o111 != 0 {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		return script{[]string{program}, interpreter(string(line))}, nil
	}
	return script{[]string{"bash", program}, "bash"}, nil
}

// interpreter returns the program in the first line of a script, e.g. "python3"
// of "/usr/bin/env -S python3 -u".
func interpreter(line string) string {
	words := strings.Fields(line)
	if len(words) > 1 && path.Base(words[0]) == "env" {
		for _, word := range words[1:] {
			if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
				return word
			}
		}
	}
	return strings.Join(words[:min(1, len(words))], "")
}

// execute runs a program and keeps what it said.
func (t *trial) execute(ctx context.Context, argv []string) (sandbox.Result, error) {
	result, err := t.runner.Sandbox.Run(ctx, sandbox.Spec{
		Argv: argv, Env: t.env, Dir: path.Join(t.inside, t.task.WorkingDir), Mounts: t.mounts(), Limits: t.outcome.Limits,
	})
	if err != nil {
		return sandbox.Result{}, err
	}
	o := &t.outcome
	o.ExitCode, o.Duration, o.PeakMemory = result.ExitCode, result.Duration, result.PeakMemory
	o.Stdout, o.Stderr = t.runner.mask(result.Stdout), t.runner.mask(result.Stderr)
	return result, nil
}
