package taskpkg_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/environments/environmentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
)

// honest is a task whose verifier wants /app/good with the content of a file of
// its own, and finds no programs or settings but the system's.
func honest(verifierFolder string) files {
	return files{
		"app/data.txt": "x\n",
		verifierFolder + "/test.sh": `#!/bin/bash -l
if [ -n "$PLANTED" ]; then exit 0; fi
. "$(dirname "$0")/lib/check.sh"
check
`,
		verifierFolder + "/lib/check.sh":     `check() { diff /app/good "$(dirname "$0")/lib/expected.txt"; }`,
		verifierFolder + "/lib/expected.txt": "good\n",
	}
}

// TestOracleCannotJudgeItself: the oracle, and so what it calls of the skill, may
// change all that it can reach, but the original verifier decides.
func TestOracleCannotJudgeItself(t *testing.T) {
	const won = "#!/bin/sh\\nexit 0\\n"
	attacks := map[string]string{
		"replaces the verifier":          "printf '" + won + "' > /tests/test.sh",
		"replaces it at the other path":  "printf '" + won + "' > $TASK_ROOT/tests/test.sh",
		"replaces a file that it loads":  "echo 'check() { true; }' > /tests/lib/check.sh",
		"replaces what it compares with": "echo bad > /app/good; cp /app/good /tests/lib/expected.txt",
		"removes the verifier":           "rm -r /task/tests/*",
		"makes the verifier a link":      "printf '" + won + "' > /app/x; chmod +x /app/x; ln -sf /app/x /tests/test.sh",
		"makes the folder a link":        "mkdir /app/t; printf '" + won + "' > /app/t/test.sh; mv /task/tests /task/old; ln -s /task/app/t /task/tests",
		"makes the folder a file":        "mv /task/tests /task/old; touch /task/tests",
		"hard link":                      "ln /tests/test.sh /app/link; printf '" + won + "' > /app/link",
		"closes the folder":              "printf '" + won + "' > /tests/test.sh; chmod 0 /tests/lib /tests; chmod 0 /task",
		"closes the working folder":      "chmod 0 /task/app",
		"adds a folder of that name":     "mkdir -p /task/verifier; printf '" + won + "' > /task/verifier/test.sh",
		"plants a reward":                "echo 1 > /logs/verifier/reward.txt",
		"plants a reward by a link":      "echo 1 > /app/r; rm -r /logs/verifier/* /task/logs/verifier; ln -s ../app /task/logs/verifier; mv /app/r /app/reward.txt",
		"plants the logs":                "mkdir -p /app/l/verifier; echo 1 > /app/l/verifier/reward.txt; mv /task/logs /task/x; ln -s app/l /task/logs",
		"plants a profile":               "for f in .profile .bash_profile .bash_login .bashrc; do echo 'export PLANTED=1' > ~/$f; done",
		"plants a profile in root":       "mkdir -p /task/root; echo 'export PLANTED=1' | tee /task/root/.profile > /root/.profile",
		"plants a program":               "mkdir -p ~/bin ~/.local/bin; for d in ~/bin ~/.local/bin /app; do printf '" + won + "' > $d/diff; chmod +x $d/diff; done; echo 'PATH=~/bin:~/.local/bin:$PATH' > ~/.profile",
		"sets variables":                 "export PLANTED=1 BASH_ENV=/app/x; echo 'exit 0' > /app/x",
		"leaves a process":               "(trap '' TERM HUP; while sleep 0.05; do echo 1 > /logs/verifier/reward.txt; printf '" + won + "' > /tests/test.sh; done) > /dev/null 2>&1 & disown",
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			task := taskpkg.Task{WorkingDir: "app", OracleRef: "solve.sh"}
			o := w.run(t, honest("tests").with(files{"solve.sh": attack + "\ntrue\n"}), task)
			check(t, o, taskpkg.Fail, "")
			o = w.run(t, honest("tests").with(files{"solve.sh": attack + "\nchmod 755 /task /task/app; echo good > /task/app/good\n"}), task)
			check(t, o, taskpkg.Pass, "")
		})
	}
}

// TestNoSecretInProcesses: the oracle, an agent and the verifier find no secret of the
// service in any process that they see, on its machine and in an image.
func TestNoSecretInProcesses(t *testing.T) {
	program, err := os.ReadFile(filepath.Join(sandboxtest.Attacker(t), "attacker"))
	if err != nil {
		t.Fatal(err)
	}
	secret := sandboxtest.PlantSecret(t)
	sandboxtest.PlantKey(t, secret)
	box, err := sandbox.New(sandbox.Options{}) // knows of the planted file
	if err != nil {
		t.Fatal(err)
	}
	sandboxtest.Bubblewrap(t)
	w := newWorldWith(t, box)
	w.runner.Environments = environmentstest.New(t)
	w.runner.Environments.Builder.Sandbox = box
	script := "#!/bin/sh\ncp /task/attacker /app/search && chmod 755 /app/search && /app/search " + strings.Join(sandboxtest.FindSecret(secret), " ") +
		" && [ -z \"$PLANTED\" ]\n"
	f := files{"tests/test.sh": script, "solve.sh": script, "attacker": string(program), "app/": ""}
	agent := func(ctx context.Context, at taskpkg.Workplace) error {
		spec := at.Spec
		spec.Argv = []string{"sh", "-c", strings.TrimPrefix(script, "#!/bin/sh\n")}
		result, err := w.runner.Sandbox.Run(ctx, spec)
		if err == nil && result.ExitCode != 0 {
			t.Errorf("an agent: status %d, %s%s", result.ExitCode, result.Stdout.Tail, result.Stderr.Tail)
		}
		return err
	}
	for _, image := range []files{{}, {"environment/Dockerfile": "FROM debian:12\nRUN mkdir -p app\n"}} {
		check(t, w.run(t, f.with(image), taskpkg.Task{OracleRef: "solve.sh"}), taskpkg.Pass, "")
		check(t, w.run(t, f.with(image), taskpkg.Task{Agent: agent}), taskpkg.Pass, "")
	}
}

// TestOracleElsewhere has the verifier at other paths than tests.
func TestOracleElsewhere(t *testing.T) {
	attack := `for f in $(find /task /tests -name '*.sh'); do echo 'check() { true; }; true' > $f; done
mkdir -p /task/tests; echo 'check() { true; }; true' > /task/tests/test.sh
mkdir /app/t; cp -r /task/deep/in/checks/. /task/verifier/. /app/t; mv /task/deep /task/shallow; mkdir /task/deep; ln -s /app /task/deep/in
true
`
	for _, folder := range []string{"verifier", "deep/in/checks"} {
		t.Run(strings.ReplaceAll(folder, "/", " "), func(t *testing.T) {
			t.Parallel()
			task := taskpkg.Task{WorkingDir: "app", OracleRef: "solve.sh", VerifierRef: folder + "/test.sh"}
			f := honest(folder).with(files{"solve.sh": attack, "deep/in/other": "x"})
			check(t, newWorld(t).run(t, f, task), taskpkg.Fail, "")
		})
	}
	t.Run("beside the result", func(t *testing.T) {
		t.Parallel()
		task := taskpkg.Task{OracleRef: "solve.sh", VerifierRef: "verify.sh"}
		f := files{"verify.sh": "test -f good", "solve.sh": "echo true > verify.sh; mkdir tests; touch tests/x"}
		check(t, newWorld(t).run(t, f, task), taskpkg.Fail, "")
		f["solve.sh"] += "; touch good"
		check(t, newWorld(t).run(t, f, task), taskpkg.Pass, "")
	})
	t.Run("in the working folder", func(t *testing.T) {
		t.Parallel()
		task := taskpkg.Task{OracleRef: "solve.sh", WorkingDir: "tests"}
		f := verifier("test -f /tests/good && test -f good").with(files{"solve.sh": "echo true > test.sh"})
		check(t, newWorld(t).run(t, f, task), taskpkg.Fail, "")
		f["solve.sh"] += "; touch good"
		check(t, newWorld(t).run(t, f, task), taskpkg.Pass, "")
	})
}

// TestWhatTheVerifierFinds: the verifier sees the oracle's result, and empty
// scratch folders.
func TestWhatTheVerifierFinds(t *testing.T) {
	const find = `#!/bin/bash
set -e
test "$(cat /root/answer /task/out/answer /logs/agent/answer /app/answer)" = "$(printf '1\n2\n3\n4')"
test ! -e "$HOME/answer" && test ! -e /tmp/answer && test ! -e "$TMPDIR/answer"
touch "$HOME/x" "$TMPDIR/x" /tests/x
test -x /tests/test.sh && test "$(stat -c %a /tests/test.sh /tests/data)" = "$(printf '755\n644')"
`
	const solve = "set -e\ncat /tests/data > /dev/null\necho 1 > /root/answer; mkdir /task/out; echo 2 > /task/out/answer; echo 3 > /logs/agent/answer; echo 4 > answer; echo 5 > /tmp/answer\n"
	for name, extra := range map[string]files{"a home of its own": {}, "root in the archive": {"root/x": ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := verifier(find).with(files{"tests/data": "x", "app/x": "", "solve.sh": solve}).with(extra)
			check(t, newWorld(t).run(t, f, taskpkg.Task{WorkingDir: "app", OracleRef: "solve.sh"}), taskpkg.Pass, "")
		})
	}
	t.Run("no sandbox", func(t *testing.T) {
		t.Parallel()
		s, err := sandbox.New(sandbox.Options{Driver: sandbox.None, AllowNone: true})
		if err != nil {
			t.Fatal(err)
		}
		f := verifier(`[ -f "$TASK_ROOT/good" ] && [ ! -e "$HOME/.profile" ] && [ ! -e "$TMPDIR/x" ] && touch "$HOME/x" "$TMPDIR/x"`)
		f["solve.sh"] = `echo true > "$TASK_ROOT/tests/test.sh"; touch "$HOME/.profile" "$TMPDIR/x"`
		check(t, newWorldWith(t, s).run(t, f, taskpkg.Task{OracleRef: "solve.sh"}), taskpkg.Fail, "")
		f["solve.sh"] += ` "$TASK_ROOT/good"`
		check(t, newWorldWith(t, s).run(t, f, taskpkg.Task{OracleRef: "solve.sh"}), taskpkg.Pass, "")
	})
}
