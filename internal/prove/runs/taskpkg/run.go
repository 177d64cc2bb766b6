package taskpkg

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A trial is one attempt at a task.
type trial struct {
	runner *Runner
	task   Task
	skill  *skillpkg.Package // nil in the arm no_skill

	dir  string   // the trial's folder on the host
	host string   // the task's root on the host
	root *os.Root // the same, which no link leads out of

	// The paths in the sandbox of the task's root, the home and the temporary
	// folder.
	inside, insideHome, insideTmp string
	// scratch are the mounts of the temporary folder, and of a home that is not
	// /root.
	scratch []sandbox.Mount

	// tests and solution are the folders that are mounted at /tests and
	// /solution, or "". They are looked up once: a program could make others.
	tests, solution string
	// stashed are the paths in the root that the oracle must not change.
	stashed []string

	settings taskfile.Settings // of its task.toml
	// image is what the programs run in, and imageRoot the trial's own; both are nil
	// if they run on the service's own machine.
	image     *environments.Environment
	imageRoot *sandbox.Root
	// worked is the root in which the oracle or the agent worked, while the verifier
	// has another one, or nil; carried are the paths that were moved to that.
	worked  *sandbox.Root
	carried []string
	// imagePaths are mounted below "/" as they are below the root, unmounted are
	// the others of the image. They are looked up once, like tests.
	imagePaths, unmounted []string
	programs              *sandbox.Mount // at insideBin, or nil
	// short are the limits that are below what the task asks for: a program that
	// exceeds one makes the trial Unsupported rather than a fail.
	short []sandbox.Limit

	env     map[string]string
	outcome Outcome
}

// insideRoot is the task's root in a sandbox with bind mounts.
const insideRoot = "/task"

// Run runs a task with a skill, or without one (the arm no_skill) if it is nil.
// The caller closes the skill. Whatever goes wrong is an outcome: what the
// programs cause is Fail, since a skill may have caused it, and everything else
// is Error or Unsupported.
func (r *Runner) Run(ctx context.Context, task Task, skill *skillpkg.Package) Outcome {
	t := &trial{runner: r, task: task.withDefaults(), skill: skill}
	t.outcome.Version = Version
	t.outcome.Limits, t.short = r.limits(task)
	if err := t.run(ctx); err != nil {
		t.setError(ctx, err)
	}
	if err := t.close(); err != nil {
		r.warn(ctx, "a trial's folder cannot be removed", err)
	}
	return t.outcome
}

func (t *trial) close() (err error) {
	if t.root != nil {
		err = t.root.Close()
	}
	if t.image != nil {
		t.image.Release()
	}
	if t.dir != "" {
		err = errors.Join(err, sandbox.Remove(t.dir))
		t.runner.running.Delete(t.dir)
	}
	return err
}

func (r *Runner) warn(ctx context.Context, message string, err error) {
	if r.Log != nil {
		r.Log.WarnContext(ctx, message, "error", err)
	}
}

// setError makes an error the outcome. The message of a known failure is shown; any
// other error is logged, and shown without details.
func (t *trial) setError(ctx context.Context, err error) {
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

// run takes the steps of a trial in their order; see docs/evals.md.
func (t *trial) run(ctx context.Context) (err error) {
	if t.dir, err = t.runner.makeDir(); err != nil {
		return err
	}
	if err := t.fetchAndUnpack(ctx); err != nil {
		return err
	}
	if err := t.checkPaths(); err != nil {
		return err
	}
	t.readSettings()
	if err := t.openImage(ctx); err != nil {
		return err
	}
	if err := t.mountSkill(ctx); err != nil {
		return err
	}
	if err := t.prepare(); err != nil {
		return err
	}
	t.setPaths()
	if t.env, err = t.environment(); err != nil {
		return err
	}
	if err := t.checkSupport(); err != nil {
		return err
	}
	if len(t.settings.Steps) > 0 {
		return t.runSteps(ctx)
	}
	return t.runStep(ctx)
}

// runStep runs the oracle and the verifier of the task, or of one of its steps.
func (t *trial) runStep(ctx context.Context) error {
	verifier, err := t.script(t.task.VerifierRef)
	if err != nil {
		return errorf(VerifierMissing, "there is no file %q in the archive", t.task.VerifierRef)
	}
	if t.task.Agent != nil {
		err = t.runAgent(ctx)
	} else {
		err = t.runOracle(ctx)
	}
	if err != nil {
		return err
	}
	return t.runVerifier(ctx, verifier)
}

// fetchAndUnpack removes the archive as soon as it is unpacked: programs have no
// use for it, and it may be as large as their own files.
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

// setPaths decides where programs find the task's root, the home and the temporary
// folder: at fixed paths with bind mounts, else at their paths on the machine.
func (t *trial) setPaths() {
	t.inside, t.insideHome, t.insideTmp = t.host, filepath.Join(t.dir, homeDir), filepath.Join(t.dir, tmpDir)
	if t.runner.Sandbox.Binds() {
		t.inside, t.insideHome, t.insideTmp = insideRoot, "/root", "/tmp"
		if t.image != nil {
			return // the image has a home and a temporary folder
		}
		t.scratch = []sandbox.Mount{writable(filepath.Join(t.dir, tmpDir), t.insideTmp)}
		return
	}
	t.scratch = []sandbox.Mount{writable(t.insideHome, t.insideHome), writable(t.insideTmp, t.insideTmp)}
}

// runOracle runs the reference solution in place of an agent. The verifier's files
// are stashed meanwhile, and afterwards the verifier gets a home, a temporary
// folder and logs of its own: an oracle must solve the task, not the verifier.
func (t *trial) runOracle(ctx context.Context) error {
	if t.task.OracleRef == "" {
		return nil
	}
	oracle, err := t.script(t.task.OracleRef)
	if err != nil {
		return errorf(OracleFailed, "there is no file %q in the archive", t.task.OracleRef)
	}
	if err := t.stashVerifier(copied); err != nil {
		return err
	}
	verifier := t.outcome.Limits
	if timeout := t.settings.AgentTimeout(); timeout > 0 { // it takes the place of an agent
		t.outcome.Limits = t.withTimeout(timeout)
	}
	result, err := t.execute(ctx, oracle.argv)
	t.outcome.Limits = verifier
	if err != nil {
		return err
	}
	if result.Exceeded != "" {
		over := t.exceeded(result.Exceeded)
		if over.verdict == Fail {
			over = failf(OracleFailed, "the oracle was ended: %s", over.message)
		}
		return over
	}
	if err := t.checkStarted(ctx, oracle, result, OracleFailed); err != nil {
		return err
	}
	if result.ExitCode != 0 {
		if t.skipsRuns() {
			return unsupportedf(NeedsImages, "the oracle ended with status %d, and %s", result.ExitCode, runsSkipped)
		}
		return failf(OracleFailed, "the oracle ended with status %d", result.ExitCode)
	}
	return t.returnToVerifier(ctx, "oracle")
}

// returnToVerifier prepares the root for the verifier after an oracle or an agent: its
// files are restored, its logs emptied, and the image, or the home and the temporary
// folder, renewed.
func (t *trial) returnToVerifier(ctx context.Context, from string) error {
	if err := t.restoreVerifier(); err != nil {
		return err
	}
	if err := t.resetLogs(); err != nil {
		return err
	}
	if t.image != nil {
		return t.renewImage(ctx)
	}
	if !t.isDir(t.task.WorkingDir) {
		return failf(WorkdirMissing, "the %s removed the working folder %q", from, t.task.WorkingDir)
	}
	if err := t.makeDirs(t.task.WorkingDir); err != nil { // the program may have removed its permissions
		return err
	}
	return t.newScratch()
}

// runVerifier runs the verifier and derives the verdict from its reward, whatever
// its exit status: that decides only where there is no reward file.
func (t *trial) runVerifier(ctx context.Context, verifier script) error {
	result, err := t.execute(ctx, verifier.argv)
	if err != nil {
		return err
	}
	if result.Exceeded != "" {
		return t.exceeded(result.Exceeded)
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
		// The verifier may have called a program that the Dockerfile would have
		// installed.
		if (result.ExitCode == notExecutable || result.ExitCode == notFound) && t.skipsRuns() {
			return unsupportedf(NeedsImages, "the verifier ended with status %d, and %s", result.ExitCode, runsSkipped)
		}
		if given, err = rewardOfStatus(result); err != nil {
			return err
		}
	}
	t.decide(given.raw, given.metrics)
	if t.outcome.Verdict == Fail && lacksModule(result) && t.skipsRuns() {
		return unsupportedf(NeedsImages, "the verifier lacks a module of Python, and %s", runsSkipped)
	}
	return nil
}

// lacksModule reports whether a program wrote that it lacks a Python module.
func lacksModule(result sandbox.Result) bool {
	const says = "ModuleNotFoundError"
	return bytes.Contains(result.Stdout.Tail, []byte(says)) || bytes.Contains(result.Stderr.Tail, []byte(says))
}

// rewardOfStatus returns the reward of a verifier that wrote none: 1 if it succeeded,
// else 0. A verifier that was killed, or could not start a program, has none.
func rewardOfStatus(result sandbox.Result) (reward, error) {
	switch {
	case result.ExitCode == 0:
		return reward{raw: 1}, nil
	case result.ExitCode == notExecutable || result.ExitCode == notFound:
		wrote := bytes.TrimSpace(result.Stderr.Tail)
		lastLine := strings.ToValidUTF8(string(wrote[bytes.LastIndexByte(wrote, '\n')+1:]), "?")
		return reward{}, failf(VerifierNotStarted,
			"a program that the verifier calls could not be started (status %d); it wrote %q",

			result.ExitCode, lastLine)
	case result.Signal() != 0:
		return reward{}, failf(Signalled, "the verifier was ended by signal %d", result.Signal())
	}
	return reward{raw: 0}, nil
}

// Exit statuses of a shell that could not run a program.
const (
	notExecutable = 126
	notFound      = 127
)

// checkStarted returns an error if a script could not be started because its
// interpreter is not installed: then nothing of the task has run.
func (t *trial) checkStarted(ctx context.Context, s script, result sandbox.Result, code Code) error {
	if result.ExitCode != notExecutable && result.ExitCode != notFound {
		return nil
	}
	found, err := t.finds(ctx, s.interpreter)
	if err != nil {
		return err
	}
	if !found {
		return errorf(code, "there is no program %q on this machine, or in the image, which is to run %s",
			s.interpreter, path.Base(s.argv[len(s.argv)-1]))
	}
	return nil
}

// exceeded returns the failure of a program that exceeded a limit. If this machine
// gives less than the task asks for, the skill isn't to blame: then it is Unsupported.
func (t *trial) exceeded(limit sandbox.Limit) *failure {
	switch {
	case slices.Contains(t.short, limit):
		return unsupportedf(NeedsResources, "it took more than it may (%s), which is less than the task asks for", limit)
	case limit == sandbox.WallLimit:
		return failf(Timeout, "it took longer than its timeout")
	case limit == sandbox.MemoryLimit:
		return failf(OutOfMemory, "it took more memory than it may")
	default:
		return failf(OverLimit, "it took more than it may: %s", limit)
	}
}

// A script is a file of the root and the command that runs it.
type script struct {
	argv        []string
	interpreter string // the program that reads it
}

// script returns how to run a file of the root: directly if it is executable and
// has a shebang line, else with bash.
func (t *trial) script(ref string) (s script, err error) {
	ref = path.Clean(ref)
	info, err := t.root.Lstat(ref)
	if err != nil {
		return s, err
	}
	if !info.Mode().IsRegular() || !t.isDir(path.Dir(ref)) {
		return s, errors.New("not a regular file")
	}
	program := path.Join(t.inside, ref)
	f, err := t.root.Open(ref)
	if err != nil {
		return s, err
	}
	defer f.Close()
	start := make([]byte, 256) // the kernel reads no more of a shebang line
	n, _ := f.Read(start)      // nothing is read of an empty file, which bash runs
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

// execute runs a program in the sandbox, and stores its output in the outcome.
func (t *trial) execute(ctx context.Context, argv []string) (sandbox.Result, error) {
	result, err := t.runner.Sandbox.Run(ctx, t.spec(argv))
	if err != nil {
		return sandbox.Result{}, err
	}
	o := &t.outcome
	o.ExitCode, o.Duration, o.PeakMemory = result.ExitCode, result.Duration, result.PeakMemory
	o.Stdout, o.Stderr = redact(result.Stdout), redact(result.Stderr)
	return result, nil
}
