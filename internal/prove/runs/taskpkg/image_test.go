package taskpkg_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/environments/environmentstest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
)

// inImage is a task that passes only in its image.
func inImage() files {
	return files{
		"task.toml":               "[environment]\ncpus = 1\n",
		"environment/Dockerfile":  "FROM debian:12\nWORKDIR /srv/work\nENV COLOUR=green\nCOPY data.txt /srv/work/data.txt\nRUN echo ran > made.txt\n",
		"environment/data.txt":    "given\n",
		"environment/skills/x/":   "",
		"tests/test.sh":           "#!/bin/bash\nset -e\n[ $(pwd) = /srv/work ]\ngrep -q ID=small /etc/os-release\n[ $COLOUR = green ]\n[ -d $SKILL_DIR ]\ngrep -q solved /srv/work/out.txt\necho 1 > /logs/verifier/reward.txt\n",
		"solution/solve.sh":       "#!/bin/bash\nset -e\ncat data.txt made.txt\necho solved > out.txt\nls /task/tests /tests >/dev/null\ntouch /usr/bin/changed\n",
		"environment/.gitignored": "x",
	}
}

// TestImage: a task with a Dockerfile runs in its image, whatever the machine has.
func TestImage(t *testing.T) {
	w := newWorld(t)
	w.runner.Environments = environmentstest.New(t)
	task := taskpkg.Task{OracleRef: "solution/solve.sh", SkillBundleRef: "environment/skills/x", NeedsImage: true}
	o := w.run(t, inImage(), task)
	check(t, o, taskpkg.Pass, "")
	if len(o.Image) != 64 || o.Digest == "" {
		t.Errorf("the outcome is %+v", o)
	}
	again := w.run(t, inImage().with(files{"solution/solve.sh": "#!/bin/bash\ntest ! -e /usr/bin/changed && echo solved > out.txt\n"}), task)
	check(t, again, taskpkg.Pass, "") // the changes of another trial are not there
	if again.Image != o.Image {
		t.Error("the image was built twice")
	}
	task.OracleRef = ""
	check(t, w.run(t, inImage(), task), taskpkg.Fail, "")
	check(t, w.run(t, files{
		"task.toml":     "[environment]\ndocker_image = 'debian:12'\n",
		"tests/test.sh": "#!/bin/bash\ngrep -q ID=small /etc/os-release\n",
	}, taskpkg.Task{}), taskpkg.Pass, "")
}

// TestImageErrors: what is missing or fails is no verdict, and says why.
func TestImageErrors(t *testing.T) {
	w := newWorld(t)
	dockerfile := func(text string) files { return inImage().with(files{"environment/Dockerfile": text}) }
	needs := taskpkg.Task{NeedsImage: true}
	expect := func(f files, task taskpkg.Task, verdict taskpkg.Verdict, code taskpkg.Code, message string) {
		t.Helper()
		o := w.run(t, f, task)
		check(t, o, verdict, code)
		if !strings.Contains(o.Message, message) {
			t.Errorf("the message is %q, want %q", o.Message, message)
		}
	}
	expect(inImage(), needs, taskpkg.Unsupported, taskpkg.NeedsImages, "not built here")
	w.runner.Environments = environmentstest.New(t)
	expect(dockerfile("FROM debian:12\nRUN echo trouble; exit 9\n"), needs, taskpkg.Error, taskpkg.EnvironmentFailed, "trouble")
	expect(dockerfile("FROM alpine:3\n"), needs, taskpkg.Unsupported, taskpkg.NeedsImages, "alpine_3.tar")
	expect(dockerfile("FROM debian:12\nRUN true\n").with(files{"tests/test.sh": "#!/usr/bin/env perl\nexit 0\n"}), needs,
		taskpkg.Error, taskpkg.VerifierNotStarted, "perl")
	// An archive that was laid out for the machine has not what its Dockerfile copies.
	laidOut := files{"environment/Dockerfile": "FROM debian:12\nCOPY gone.txt /\n", "tests/test.sh": "#!/bin/sh\n! grep -q ID=small /etc/os-release\n"}
	expect(laidOut, taskpkg.Task{}, taskpkg.Pass, "", "")
	expect(laidOut, needs, taskpkg.Unsupported, taskpkg.NeedsImages, "")
}

// steps is a task of two steps; the second needs what the first has left.
func steps(manifest string) files {
	return files{
		"task.toml":                   manifest + "[[steps]]\nname = 'one'\n[[steps]]\nname = 'two'\nmin_reward = 0.5\n[[steps]]\nname = 'three'\n",
		"app/":                        "",
		"tests/helper.sh":             "reward() { echo $1 > /logs/verifier/reward.txt; }\n",
		"tests/test.sh":               "#!/bin/bash\n. /tests/helper.sh\ntest -f /app/$(cat /tests/wanted) && reward 1 || reward 0\n",
		"steps/one/tests/wanted":      "first",
		"steps/one/instruction.md":    "Make first.",
		"steps/one/solution/solve.sh": "#!/bin/bash\nls /task/steps /tests/later && exit 1\ntouch /app/first\necho cheated > /tests/wanted; true\n",
		"steps/two/tests/wanted":      "second",
		"steps/two/tests/later":       "",
		"steps/two/workdir/setup.sh":  "touch /app/ready\n",
		"steps/two/solution/solve.sh": "#!/bin/bash\ntest -f /app/first && test -f /app/ready && touch /app/second\n",
		"steps/three/tests/test.sh":   "#!/bin/bash\n. /tests/helper.sh\ntest -f /app/second && reward 0.5\n",
	}
}

// TestSteps: steps run on what the ones before have left; each has its own tests,
// and sees no others.
func TestSteps(t *testing.T) {
	w := newWorld(t)
	oracle := taskpkg.Task{OracleRef: "steps/one/solution/solve.sh", WorkingDir: "app"}
	reward := func(f files, task taskpkg.Task, verdict taskpkg.Verdict, want float64) {
		t.Helper()
		o := w.run(t, f, task)
		check(t, o, verdict, "")
		if o.Score != want || o.Metrics["reward"] != want {
			t.Errorf("got %v of %v, want %v", o.Score, o.Metrics, want)
		}
	}
	reward(steps(""), oracle, taskpkg.Fail, 2.5/3)
	reward(steps("multi_step_reward_strategy = 'final'\n"), oracle, taskpkg.Fail, 0.5)
	whole := files{"steps/three/tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"}
	reward(steps("").with(whole), oracle, taskpkg.Pass, 1)
	reward(steps("").with(whole), taskpkg.Task{WorkingDir: "app"}, taskpkg.Fail, 0) // the third is not reached

	check(t, w.run(t, steps("").with(files{"steps/two/workdir/setup.sh": "exit 4\n"}), oracle), taskpkg.Fail, taskpkg.SetupFailed)
	check(t, w.run(t, steps("").with(files{"steps/one/workdir/setup.sh": "exit 4\n"}), oracle), taskpkg.Error, taskpkg.SetupFailed)
	check(t, w.run(t, steps("[[steps]]\nname = '../x'\n"), oracle), taskpkg.Error, taskpkg.ArchiveInvalid)
	check(t, w.run(t, steps("").with(files{"tests/test.sh": "curl https://example.org"}), oracle), taskpkg.Unsupported, taskpkg.NeedsNetwork)

	w.runner.Environments = environmentstest.New(t)
	image := files{"environment/Dockerfile": "FROM debian:12\nWORKDIR /app\n"}
	reward(steps("").with(whole).with(image), oracle, taskpkg.Pass, 1)
}

// TestAgentInImage: an agent works in the image of the task, step by step, and does
// not see the tests.
func TestAgentInImage(t *testing.T) {
	w := newWorld(t)
	w.runner.Environments = environmentstest.New(t)
	var asked []string
	agent := func(ctx context.Context, at taskpkg.Workplace) error {
		asked = append(asked, at.Instruction)
		if err := os.WriteFile(filepath.Join(at.Dir, "skill.txt"), []byte("installed\n"), 0o644); err != nil {
			return err
		}
		spec := at.Spec
		spec.Argv = []string{"sh", "-c", "cat skill.txt /etc/os-release; ls /tests /task/steps /task/tests; touch first ready second"}
		result, err := w.runner.Sandbox.Run(ctx, spec)
		// The mount point of the tests of an earlier step is empty.
		if got := strings.TrimSuffix(string(result.Stdout.Tail), "/tests:\n"); err == nil && got != "installed\nID=small\n" {
			t.Errorf("the agent sees %q", got)
		}
		return err
	}
	f := steps("").with(files{
		"environment/Dockerfile":    "FROM debian:12\nWORKDIR /app\n",
		"steps/three/tests/test.sh": "#!/bin/bash\ntest -f /app/second && echo 1 > /logs/verifier/reward.txt\n",
	})
	check(t, w.run(t, f, taskpkg.Task{Agent: agent}), taskpkg.Pass, "")
	if len(asked) != 3 || asked[0] != "Make first." {
		t.Errorf("the instructions are %q", asked)
	}
}

// TestHasTools: an operator may say that what scripts install is there.
func TestHasTools(t *testing.T) {
	w := newWorld(t)
	f := verifier("apt-get install -y curl >/dev/null 2>&1; true")
	check(t, w.run(t, f, taskpkg.Task{}), taskpkg.Unsupported, taskpkg.NeedsNetwork)
	w.runner.HasTools = true
	check(t, w.run(t, f, taskpkg.Task{}), taskpkg.Pass, "")
}
