package taskpkg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
)

// The folders of a step: its tests, its solution, and the files that it adds to the
// trial's working folder.
const (
	stepTests    = "tests"
	stepSolution = "solution"
	stepWorkDir  = "workdir"
)

// originalsDir is the folder, in the trial's, for the files of all steps and the tests
// that they share. It is never mounted: a step must not see the tests of later ones,
// nor change any.
const originalsDir = "originals"

// stepName matches what is safe as the name of a folder.
var stepName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// scripts returns the paths in the root of the scripts that the trial will run.
func (t *trial) scripts() (all []string) {
	if len(t.settings.Steps) == 0 {
		all = []string{t.task.VerifierRef}
		if t.task.OracleRef != "" {
			all = append(all, t.task.OracleRef)
		}
		return all
	}
	all = []string{taskfile.DefaultVerifier}
	for _, step := range t.settings.Steps {
		dir := path.Join(taskfile.StepsDir, step.Name)
		all = append(all, path.Join(dir, taskfile.DefaultVerifier))
		if t.task.OracleRef != "" {
			all = append(all, path.Join(dir, taskfile.Solution))
		}
	}
	return all
}

// runSteps runs the steps of a task in order, each on what the ones before have left.
// The reward of the task is the mean of their rewards, or the last one's; a step that
// isn't reached has 0.
func (t *trial) runSteps(ctx context.Context) error {
	steps := t.settings.Steps
	for _, step := range steps {
		if !stepName.MatchString(step.Name) || !t.isDir(path.Join(taskfile.StepsDir, step.Name)) {
			return errorf(ArchiveInvalid, "the task has no folder for its step %q", step.Name)
		}
	}
	if err := t.takeOriginals(); err != nil {
		return err
	}
	oracle, limits, env := t.task.OracleRef != "", t.outcome.Limits, t.env
	total, last, metrics := 0.0, 0.0, map[string]float64{}
	for i, step := range steps {
		if err := t.enterStep(ctx, step, oracle); err != nil {
			if known, ok := errors.AsType[*failure](err); ok && i == 0 {
				known.verdict = Error // no program of the skill has run
			}
			return stepError(step, err)
		}
		t.outcome.Limits, t.env = limits, maps.Clone(env)
		for name, value := range step.Verifier.Env {
			if value, ok := taskfile.ExpandDefaults(value); ok && taskfile.RefusedVariable(name) == "" {
				t.env[name] = value
			}
		}
		if _, verifier := step.Timeouts(); verifier > 0 {
			t.outcome.Limits = t.withTimeout(verifier)
		}
		if err := t.runStep(ctx); err != nil {
			return stepError(step, err)
		}
		last = t.outcome.Raw
		total += last
		metrics[step.Name] = last
		for name, value := range t.outcome.Metrics {
			metrics[step.Name+"."+name] = value
		}
		if !step.Continues(last, t.outcome.Metrics) && i < len(steps)-1 {
			last = 0
			break
		}
	}
	reward := total / float64(len(steps))
	if t.settings.Strategy == "final" {
		reward = last
	}
	metrics["reward"] = reward
	t.decide(reward, metrics)
	return nil
}

// stepError adds the name of the step to a failure.
func stepError(step taskfile.Step, err error) error {
	if known, ok := errors.AsType[*failure](err); ok {
		return &failure{known.verdict, known.code, fmt.Sprintf("step %s: %s", step.Name, known.message)}
	}
	return err
}

// takeOriginals moves the files of the steps out of the programs' reach.
func (t *trial) takeOriginals() error {
	if err := os.Mkdir(t.originals(), 0o700); err != nil {
		return err
	}
	for _, name := range []string{path.Clean(taskfile.StepsDir), stepTests} {
		err := os.Rename(t.hostPath(name), filepath.Join(t.originals(), name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (t *trial) originals() string { return filepath.Join(t.dir, originalsDir) }

// enterStep puts the files of a step in place: its tests over those that all steps
// share, its solution, and what it adds to the working folder.
func (t *trial) enterStep(ctx context.Context, step taskfile.Step, oracle bool) error {
	if err := t.returnImage(); err != nil {
		return err
	}
	dir := filepath.Join(t.originals(), filepath.FromSlash(taskfile.StepsDir), step.Name)
	for _, name := range []string{stepTests, stepSolution, stepWorkDir} {
		if err := t.displace(name); err != nil {
			return err
		}
	}
	for _, from := range []string{filepath.Join(t.originals(), stepTests), filepath.Join(dir, stepTests)} {
		if err := copyOver(from, t.hostPath(stepTests)); err != nil {
			return err
		}
	}
	for _, name := range []string{stepSolution, stepWorkDir} {
		if err := copyOver(filepath.Join(dir, name), t.hostPath(name)); err != nil {
			return err
		}
	}
	t.task.VerifierRef, t.task.OracleRef = taskfile.DefaultVerifier, ""
	t.tests, t.solution = stepTests, ""
	if oracle && isFile(t.hostPath(taskfile.Solution)) {
		t.task.OracleRef, t.solution = taskfile.Solution, stepSolution
	}
	if text, err := os.ReadFile(filepath.Join(dir, taskfile.Instruction)); err == nil {
		t.task.Instruction = string(text[:min(len(text), maxInstruction)])
	}
	if agent, _ := step.Timeouts(); agent > 0 {
		t.settings.Agent.TimeoutSec = agent.Seconds()
	}
	if err := t.resetLogs(); err != nil || !t.isDir(stepWorkDir) {
		return err
	}
	return t.addToWorkDir(ctx)
}

// addToWorkDir adds the files of a step to the working folder, and runs its set-up.
func (t *trial) addToWorkDir(ctx context.Context) error {
	const script = `cp -R "$0/." . && if [ -f "$0/setup.sh" ]; then bash ./setup.sh; fi`
	result, err := t.execute(ctx, []string{"sh", "-c", script, path.Join(t.inside, stepWorkDir)})
	if err != nil {
		return err
	}
	if result.Exceeded != "" {
		return t.exceeded(result.Exceeded)
	}
	if result.ExitCode != 0 {
		return failf(SetupFailed, "its set-up ended with status %d", result.ExitCode)
	}
	return nil
}

// copyOver copies a folder into another one, replacing files of the same name. It is no
// error if from doesn't exist.
func copyOver(from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && p == from {
			return fs.SkipAll
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755) // programs read it
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, info.Mode().Perm())
	})
}

// withTimeout returns the limits with another timeout, capped like that of a case. The
// limit on processor time is derived from it.
func (t *trial) withTimeout(d time.Duration) sandbox.Limits {
	l := t.outcome.Limits
	l.Wall, l.CPU = t.runner.capTimeout(d), 0
	if t.task.Most.Timeout > 0 {
		l.Wall = min(l.Wall, t.task.Most.Timeout)
	}
	return l.WithDefaults()
}

// decide turns a reward into the outcome: only a full reward passes.
func (t *trial) decide(raw float64, metrics map[string]float64) {
	o := &t.outcome
	o.Raw, o.Metrics, o.Score = raw, metrics, min(max(raw, 0), 1)
	o.Verdict = Fail
	if o.Score >= passScore {
		o.Verdict = Pass
	}
}
