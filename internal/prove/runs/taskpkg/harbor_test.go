package taskpkg_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
)

// harbor is a task as Harbor has them, with absolute paths in its scripts.
func harbor() files {
	return files{
		"instruction.md":         "Write a greeting to /app/greeting.txt.\n",
		"task.toml":              "schema_version = \"1.1\"\n[task]\nname = \"test/greeting\"\n[verifier]\ntimeout_sec = 60\n[environment]\ncpus = 1\ngpus = 0\nallow_internet = true\n",
		"environment/Dockerfile": "FROM debian:12\nWORKDIR /app\n",
		"app/data.txt":           "from the image\n",
		"tests/test.sh": `#!/bin/bash
cd /app || exit 1
mkdir -p ~/.cache /root/x /tmp/y
if diff -q /app/greeting.txt /tests/expected.txt >/dev/null && [ "$(cat data.txt)" = "from the image" ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
echo '{"results":{"tool":{"name":"test"}}}' > /logs/verifier/ctrf.json
touch /logs/agent/a /logs/artifacts/b
exit 1
`,
		"tests/expected.txt": "hello\n",
		"solution/solve.sh":  "#!/bin/bash\nset -e\ntest -f /solution/solve.sh\necho hello > /app/greeting.txt\n",
	}
}

// TestHarbor checks what a task's authors check: the oracle passes, and doing
// nothing fails.
func TestHarbor(t *testing.T) {
	w := newWorld(t)
	task := taskpkg.Task{Instruction: "Write a greeting.", WorkingDir: "app", OracleRef: "solution/solve.sh"}
	oracle := w.run(t, harbor(), task)
	check(t, oracle, taskpkg.Pass, "")
	if oracle.Score != 1 || oracle.ExitCode != 1 || !cmp.Equal(oracle.Metrics, map[string]float64{"reward": 1}) {
		t.Errorf("oracle: %+v", oracle)
	}
	if !strings.Contains(string(oracle.Report), `"tool"`) || len(oracle.Digest) != 64 || oracle.Version == "" ||
		oracle.Limits.Wall == 0 || oracle.Duration == 0 {
		t.Errorf("not kept: %+v", oracle)
	}
	task.OracleRef = ""
	check(t, w.runWith(t, harbor(), task, nil), taskpkg.Fail, "")
}

// TestHarborWrapped packs the folder instead of what is in it.
func TestHarborWrapped(t *testing.T) {
	w := newWorld(t)
	for name, extra := range map[string]files{
		"plain": {}, "litter": {"__MACOSX/x": "x"},
		"a skill at its root": {"greeting/SKILL.md": "---\nname: x\ndescription: y\n---\n"},
	} {
		t.Run(name, func(t *testing.T) {
			wrapped := files{}.with(extra)
			for path, content := range harbor() {
				wrapped["greeting/"+path] = content
			}
			check(t, w.run(t, wrapped, taskpkg.Task{WorkingDir: "app", OracleRef: "solution/solve.sh"}), taskpkg.Pass, "")
		})
	}
}

// TestWrapperKept: a single folder is no wrapper if the verifier is found from
// outside it.
func TestWrapperKept(t *testing.T) {
	w := newWorld(t)
	f := files{"only/tests/test.sh": `#!/bin/sh
test -f "$TASK_ROOT/only/tests/test.sh"`, "only/SKILL.md": "---\nname: x\ndescription: y\n---\n"}
	check(t, w.run(t, f, taskpkg.Task{VerifierRef: "only/tests/test.sh"}), taskpkg.Pass, "")
}

// TestNativeForm is the newer layout of SkillsBench.
func TestNativeForm(t *testing.T) {
	w := newWorld(t)
	f := files{
		"task.md":            "---\nname: x\n---\n## prompt\nDo it.\n",
		"verifier/verify.sh": "#!/bin/bash\n[ -z \"$BENCHFLOW_SKIP_VERIFIER_DEPS\" ] && apt-get install -y python3\n/tests/check.sh && echo '{\"reward\": 1}' > \"$BENCHFLOW_REWARD_JSON\"\n",
		"verifier/check.sh":  "#!/bin/sh\ntest -f /app/done && test \"$BENCHFLOW_VERIFIER_DIR\" -ef /logs/verifier && test \"$BENCHFLOW_WORKSPACE\" -ef \"$TASK_ROOT\"\n",
		"oracle/solve.sh":    "touch /app/done; test -f /solution/solve.sh\n",
	}
	check(t, w.run(t, f, taskpkg.Task{VerifierRef: "verifier/verify.sh", OracleRef: "oracle/solve.sh"}), taskpkg.Pass, "")
}

// TestSkill checks the skill from inside the sandbox.
func TestSkill(t *testing.T) {
	w := newWorld(t)
	seen := `#!/bin/bash
set -e
test "$SKILL_MODE" = with_skill
test "$SKILL_DIR" = "$TASK_ROOT/$1" && test "$SKILL_BUNDLE_DIR" = "$SKILL_DIR"
grep -q "of the skill" "$SKILL_DIR/README.md"
"$SKILL_DIR/scripts/run.sh" | grep -q hello
`
	at := func(bundle, skills string) string {
		return strings.ReplaceAll(seen, "$1", bundle) + "test -f " + skills + "/SKILL.md\n"
	}
	tests := []struct {
		name, bundle string
		files        files
	}{
		{"default", "", verifier(at("skill-under-test", "/skills"))},
		{"empty placeholder", "", verifier(at("skill-under-test", "/skills")).with(files{"skill-under-test/": ""})},
		{"placeholder", "", verifier(at("skill-under-test", "/skills")).with(files{"skill-under-test/.gitkeep": "", "skill-under-test/README.md": "a placeholder"})},
		{"deep", "environment/skills/greeter", verifier(at("environment/skills/greeter", "/skills/greeter")).with(files{"environment/skills/other/SKILL.md": "x"})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			check(t, w.run(t, test.files, taskpkg.Task{SkillBundleRef: test.bundle}), taskpkg.Pass, "")
		})
	}
	t.Run("no_skill", func(t *testing.T) {
		script := `#!/bin/bash
set -eu
test "$SKILL_MODE" = no_skill
test -z "${SKILL_DIR+set}${SKILL_BUNDLE_DIR+set}"
test ! -e "$TASK_ROOT/skill-under-test"
test ! -e /skills
`
		check(t, w.runWith(t, verifier(script), taskpkg.Task{}, nil), taskpkg.Pass, "")
	})
}

// TestEnvironment: programs have the documented variables, and no others.
func TestEnvironment(t *testing.T) {
	w := newWorld(t)
	f := verifier("#!/bin/bash\nenv -0 | sort -z | tr '\\0' '|'\n").with(files{"work/x": ""})
	o := w.run(t, f, taskpkg.Task{
		Instruction: "two\nlines", WorkingDir: "work",
		Env: map[string]string{"MODE": "fast", "MAX_TOKENS": "5"},
	})
	check(t, o, taskpkg.Pass, "")
	want := strings.Join([]string{
		"BENCHFLOW_CTRF_JSON=/task/logs/verifier/ctrf.json",
		"BENCHFLOW_REWARD_JSON=/task/logs/verifier/reward.json",
		"BENCHFLOW_REWARD_TEXT=/task/logs/verifier/reward.txt",
		"BENCHFLOW_SKIP_VERIFIER_DEPS=1",
		"BENCHFLOW_VERIFIER_DIR=/task/logs/verifier",
		"BENCHFLOW_WORKSPACE=/task",
		"HOME=/root",
		"LANG=C.UTF-8",
		"LOGS_DIR=/task/logs",
		"MAX_TOKENS=5",
		"MODE=fast",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"PWD=/task/work",
		"SHLVL=1", // bash sets it
		"SKILL_BUNDLE_DIR=/task/skill-under-test",
		"SKILL_DIR=/task/skill-under-test",
		"SKILL_MODE=with_skill",
		"TASK_INSTRUCTION=two\nlines",
		"TASK_ROOT=/task",
		"TMPDIR=/tmp",
		"_=/usr/bin/env",
	}, "|") + "|"
	got := string(o.Stdout.Tail)
	got = strings.Replace(got, "OLDPWD=/task/work|", "", 1)
	if diff := cmp.Diff(strings.Split(want, "|"), strings.Split(got, "|")); diff != "" {
		t.Error(diff)
	}
	empty := w.run(t, verifier("#!/bin/bash\ntest \"${TASK_INSTRUCTION-unset}\" = ''"), taskpkg.Task{})
	check(t, empty, taskpkg.Pass, "")
}

// TestHowVerifiersRun: directly with a shebang and the right, else with bash.
func TestHowVerifiersRun(t *testing.T) {
	tests := map[string]files{
		"perl":           verifier("#!/usr/bin/perl\nmy @a = (1, 2); exit(@a == 2 ? 0 : 1);\n"),
		"no shebang":     verifier("[[ -n $BASH_VERSION ]]\n"),
		"not executable": {"tests/test.sh": " #!/bin/false\n[[ -n $BASH_VERSION ]]\n"},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, newWorld(t).run(t, f, taskpkg.Task{}), taskpkg.Pass, "")
		})
	}
}

// TestEmptyFolder: empty folders of the archive are created, also in a wrapper.
func TestEmptyFolder(t *testing.T) {
	w := newWorld(t)
	const script = "#!/bin/sh\ntouch /app/x && test -f x\n"
	task := taskpkg.Task{WorkingDir: "app"}
	check(t, w.run(t, verifier(script).with(files{"app/": ""}), task), taskpkg.Pass, "")
	check(t, w.run(t, files{"task/tests/test.sh": script, "task/app/": ""}, task), taskpkg.Pass, "")
}

// TestImagePaths: what the image of a task has is found at its path there.
func TestImagePaths(t *testing.T) {
	w := newWorld(t)
	f := files{
		"workspace/scenario.json": "{}", "data/in/a.csv": "1", "etc/tool/x.ini": "x", "etc/tool.conf": "y", "home/user/.rc": "z",
		"opt/tool/bin": "b", "config.json": "{}", "var/lib/tool/db": "d", "srv/": "",
		"solution/solve.sh": "echo done > /workspace/out.txt; echo more >> /config.json; touch /srv/x /home/user/y\n",
		"tests/test.sh": `#!/bin/bash
set -e
cat /workspace/scenario.json /data/in/a.csv /etc/tool/x.ini /etc/tool.conf /home/user/.rc /opt/tool/bin /var/lib/tool/db
grep -q done /workspace/out.txt && grep -q more /config.json && test -e /srv/x -a -e /home/user/y
test "$PWD/scenario.json" -ef /workspace/scenario.json
test -e /etc/passwd -a -d /usr/bin -a ! -e /tests/../environment
`,
		"environment/Dockerfile": "FROM debian:12\n",
	}
	check(t, w.run(t, f, taskpkg.Task{WorkingDir: "workspace", OracleRef: "solution/solve.sh"}), taskpkg.Pass, "")
}

// TestUnmountedPaths: a task that needs what cannot be mounted is unsupported, not
// failed. A path below the task's root works.
func TestUnmountedPaths(t *testing.T) {
	w := newWorld(t)
	f := files{"usr/src/app/data.csv": "1", "tmp/in": "2", "task/x": "3"}
	for name, test := range map[string]struct {
		files files
		want  taskpkg.Verdict
	}{
		"a file":         {files{"tests/test.sh": "cat /usr/src/app/data.csv"}, taskpkg.Unsupported},
		"the folder":     {files{"tests/test.sh": "cd /usr/src/app; cat data.csv"}, taskpkg.Unsupported},
		"in the tests":   {files{"tests/test.sh": "python3 /tests/a.py", "tests/a.py": "open('/usr/src/app/data.csv')"}, taskpkg.Unsupported},
		"tmp":            {files{"tests/test.sh": "cat </tmp/in"}, taskpkg.Unsupported},
		"the root":       {files{"tests/test.sh": "cat /task/x"}, taskpkg.Unsupported},
		"relative":       {files{"tests/test.sh": "cat data.csv && ls /usr/src /usr/bin/env"}, taskpkg.Pass},
		"below the root": {files{"tests/test.sh": `cat "$TASK_ROOT/usr/src/app/data.csv"`}, taskpkg.Pass},
	} {
		t.Run(name, func(t *testing.T) {
			code := taskpkg.Code("")
			if test.want == taskpkg.Unsupported {
				code = taskpkg.NeedsAbsolutePaths
			}
			check(t, w.run(t, f.with(test.files), taskpkg.Task{WorkingDir: "usr/src/app"}), test.want, code)
		})
	}
}

// TestManyImagePaths: an archive cannot make thousands of mounts.
func TestManyImagePaths(t *testing.T) {
	w := newWorld(t)
	f := verifier("true")
	for i := range 500 {
		f[fmt.Sprintf("f%d.txt", i)] = "x"
	}
	check(t, w.run(t, f, taskpkg.Task{}), taskpkg.Pass, "")
}

// TestPython: images of python have a program python, machines often only python3.
func TestPython(t *testing.T) {
	w := newWorld(t)
	f := verifier(`test "$(python -c 'print(6*7)')" = 42 && env python --version`)
	for base, want := range map[string]taskpkg.Verdict{
		"FROM --platform=linux/amd64 docker.io/library/python:3.12-slim\n": taskpkg.Pass,
		"FROM debian AS build\nFROM python@sha256:0\n":                     taskpkg.Pass,
	} {
		check(t, w.run(t, f.with(files{"environment/Dockerfile": base}), taskpkg.Task{}), want, "")
	}
	check(t, w.run(t, f.with(files{"task.toml": "[environment]\ndocker_image = \"python:3\""}), taskpkg.Task{}), taskpkg.Pass, "")
}
