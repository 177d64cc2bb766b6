package taskpkg

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxInstruction is the longest text that fits into a variable.
const maxInstruction = 120 << 10

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secretWords are the parts of names that secrets have. A case is stored and
// shown: it is no place for one.
var secretWords = []string{
	"APIKEY", "AUTH", "CREDENTIAL", "CREDENTIALS", "KEY", "PASSWD", "PASSWORD", "PASSPHRASE", "SECRET", "SECRETS", "TOKEN",
}

// environment returns what the programs of a trial have in theirs.
func (t *trial) environment() (map[string]string, error) {
	if len(t.task.Instruction) > maxInstruction {
		return nil, failed(EnvRefused, "the instruction is longer than %d bytes and does not fit into TASK_INSTRUCTION", maxInstruction)
	}
	verifier := path.Join(t.inside, logs, "verifier")
	env := map[string]string{
		"TASK_INSTRUCTION": t.task.Instruction,
		"TASK_ROOT":        t.inside,
		"SKILL_MODE":       "no_skill",
		"LOGS_DIR":         path.Join(t.inside, logs),
		"HOME":             t.insideHome,
		"TMPDIR":           t.insideTmp,

		"BENCHFLOW_VERIFIER_DIR":       verifier,
		"BENCHFLOW_REWARD_TEXT":        path.Join(verifier, rewardText),
		"BENCHFLOW_REWARD_JSON":        path.Join(verifier, rewardJSON),
		"BENCHFLOW_CTRF_JSON":          path.Join(verifier, reportJSON),
		"BENCHFLOW_WORKSPACE":          t.inside,
		"BENCHFLOW_SKIP_VERIFIER_DEPS": "1",
	}
	if t.skill != nil {
		bundle := path.Join(t.inside, t.task.SkillBundleRef)
		env["SKILL_MODE"], env["SKILL_DIR"], env["SKILL_BUNDLE_DIR"] = "with_skill", bundle, bundle
	}
	for _, name := range slices.Sorted(maps.Keys(t.task.Env)) {
		if reason := RefusedVariable(name); reason != "" {
			return nil, failed(EnvRefused, "resource_hints.env may not set %s: %s", name, reason)
		}
		if strings.ContainsRune(t.task.Env[name], 0) {
			return nil, failed(EnvRefused, "resource_hints.env: the value of %s holds a NUL character", name)
		}
		env[name] = t.task.Env[name]
	}
	return env, nil
}

// RefusedVariable returns why a case may not set a variable, or "". An import
// leaves such a variable out, since a trial with it would be an error.
func RefusedVariable(name string) string {
	upper := strings.ToUpper(name)
	switch {
	case !variableName.MatchString(name) || len(name) > 200:
		return "it is not a name of a variable"
	case slices.Contains([]string{"PATH", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS"}, upper),
		strings.HasPrefix(upper, "LD_"), strings.HasPrefix(upper, "DYLD_"):
		return "it changes which programs run"
	case slices.Contains([]string{"TASK_INSTRUCTION", "TASK_ROOT", "SKILL_DIR", "SKILL_BUNDLE_DIR", "SKILL_MODE", "LOGS_DIR", "HOME", "TMPDIR", "LANG"}, upper),
		strings.HasPrefix(upper, "BENCHFLOW_"):
		return "the runner sets it"
	case slices.ContainsFunc(strings.Split(upper, "_"), func(word string) bool { return slices.Contains(secretWords, word) }):
		return "it looks like a secret, and cases are not kept like one"
	}
	return ""
}
