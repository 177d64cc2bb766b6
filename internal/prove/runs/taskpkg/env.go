package taskpkg

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
)

// maxInstruction bounds the instruction, which is passed in an environment
// variable: Linux bounds those to 128 KiB.
const maxInstruction = 120 << 10

// environment returns the environment variables of the trial's programs. Those of the
// case come last, but can't replace the ones that RefusedVariable protects.
func (t *trial) environment() (map[string]string, error) {
	if len(t.task.Instruction) > maxInstruction {
		return nil, errorf(EnvRefused,
			"the instruction is longer than %d bytes and does not fit into TASK_INSTRUCTION", maxInstruction)
	}
	verifier := path.Join(t.inside, logs, "verifier")
	env := map[string]string{
		"TASK_INSTRUCTION": t.task.Instruction,
		"TASK_ROOT":        t.inside,
		"SKILL_MODE":       "no_skill",
		"LOGS_DIR":         path.Join(t.inside, logs),
		"HOME":             t.insideHome,
		"TMPDIR":           t.insideTmp,

		// Verifiers that were written for BenchFlow read these.
		"BENCHFLOW_VERIFIER_DIR":       verifier,
		"BENCHFLOW_REWARD_TEXT":        path.Join(verifier, rewardText),
		"BENCHFLOW_REWARD_JSON":        path.Join(verifier, rewardJSON),
		"BENCHFLOW_CTRF_JSON":          path.Join(verifier, reportJSON),
		"BENCHFLOW_WORKSPACE":          t.inside,
		"BENCHFLOW_SKIP_VERIFIER_DEPS": "1",
	}
	if t.programs != nil {
		env["PATH"] = sandbox.Environment()["PATH"] + ":" + t.programs.Target
	}
	// An agent finds the skill among its own skills instead.
	if t.skill != nil && t.task.Agent == nil {
		bundle := path.Join(t.inside, t.task.SkillBundleRef)
		env["SKILL_MODE"], env["SKILL_DIR"], env["SKILL_BUNDLE_DIR"] = "with_skill", bundle, bundle
	}
	for _, name := range slices.Sorted(maps.Keys(t.task.Env)) {
		if reason := taskfile.RefusedVariable(name); reason != "" {
			return nil, errorf(EnvRefused, "resource_hints.env may not set %s: %s", name, reason)
		}
		if strings.ContainsRune(t.task.Env[name], 0) {
			return nil, errorf(EnvRefused, "resource_hints.env: the value of %s holds a NUL character", name)
		}
		env[name] = t.task.Env[name]
	}
	return env, nil
}
