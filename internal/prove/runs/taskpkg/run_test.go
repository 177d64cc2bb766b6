package taskpkg_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
)

// TestErrors has a case for each code from unpacking on.
func TestErrors(t *testing.T) {
	const good = "#!/bin/sh\ntrue\n"
	long := strings.Repeat("x", 121<<10)
	tests := []struct {
		name  string
		files files
		task  taskpkg.Task
		code  taskpkg.Code
	}{
		{"verifier path absolute", verifier(good), taskpkg.Task{VerifierRef: "/tests/test.sh"}, "path_refused"},
		{"verifier path with ..", verifier(good), taskpkg.Task{VerifierRef: "tests/../../x"}, "path_refused"},
		{"bundle path absolute", verifier(good), taskpkg.Task{SkillBundleRef: "/skills"}, "path_refused"},
		{"bundle path with ..", verifier(good), taskpkg.Task{SkillBundleRef: "a/../b"}, "path_refused"},
		{"bundle path is the root", verifier(good), taskpkg.Task{SkillBundleRef: "./"}, "path_refused"},
		{"oracle path with ..", verifier(good), taskpkg.Task{OracleRef: "../x"}, "path_refused"},
		{"working folder with ..", verifier(good), taskpkg.Task{WorkingDir: ".."}, "path_refused"},
		{"backslash", verifier(good), taskpkg.Task{WorkingDir: `a\b`}, "path_refused"},
		{"bundle holds a skill", verifier(good).with(files{"skill-under-test/SKILL.md": "x"}), taskpkg.Task{}, "mount_conflict"},
		{"bundle holds a folder", verifier(good).with(files{"skill-under-test/readme/x": "x"}), taskpkg.Task{}, "mount_conflict"},
		{"bundle is a file", verifier(good).with(files{"skill-under-test": "x"}), taskpkg.Task{}, "mount_conflict"},
		{"bundle below a file", verifier(good).with(files{"a": "x"}), taskpkg.Task{SkillBundleRef: "a/b"}, "mount_conflict"},
		{"bundle is the tests", verifier(good), taskpkg.Task{SkillBundleRef: "tests"}, "mount_conflict"},
		{"bundle in the logs", verifier(good), taskpkg.Task{SkillBundleRef: "logs/verifier"}, "mount_conflict"},
		{"logs are a file", verifier(good).with(files{"logs": "x"}), taskpkg.Task{}, "mount_conflict"},
		{"working folder missing", verifier(good), taskpkg.Task{WorkingDir: "app"}, "workdir_missing"},
		{"working folder is a file", verifier(good), taskpkg.Task{WorkingDir: "tests/test.sh"}, "workdir_missing"},
		{"PATH", verifier(good), env("PATH"), "env_refused"},
		{"LD_PRELOAD", verifier(good), env("LD_PRELOAD"), "env_refused"},
		{"DYLD", verifier(good), env("DYLD_INSERT_LIBRARIES"), "env_refused"},
		{"BASH_ENV", verifier(good), env("BASH_ENV"), "env_refused"},
		{"ENV", verifier(good), env("ENV"), "env_refused"},
		{"runner's name", verifier(good), env("TASK_ROOT"), "env_refused"},
		{"runner's prefix", verifier(good), env("BENCHFLOW_REWARD_TEXT"), "env_refused"},
		{"looks secret", verifier(good), env("OPENAI_API_KEY"), "env_refused"},
		{"looks secret, small", verifier(good), env("github_token"), "env_refused"},
		{"no name", verifier(good), env("a-b"), "env_refused"},
		{"long instruction", verifier(good), taskpkg.Task{Instruction: long}, "env_refused"},
		{"oracle missing", verifier(good), taskpkg.Task{OracleRef: "solve.sh"}, "oracle_failed"},
		{"verifier missing", files{"x": "x"}, taskpkg.Task{}, "verifier_missing"},
		{"verifier is a folder", files{"tests/test.sh/x": "x"}, taskpkg.Task{}, "verifier_missing"},
		{"verifier made by the oracle", files{"solve.sh": "mkdir tests; echo true > tests/test.sh"}, taskpkg.Task{OracleRef: "solve.sh"}, "verifier_missing"},
		{"tests are a file", files{"tests": "x", "solve.sh": "true"}, taskpkg.Task{OracleRef: "solve.sh"}, "verifier_missing"},
		{"no interpreter", verifier("#!/no/such/program\n"), taskpkg.Task{}, "verifier_not_started"},
		{"no interpreter by name", verifier("#!/usr/bin/env -S no-such-program -x\n"), taskpkg.Task{}, "verifier_not_started"},
		{"no interpreter of the oracle", verifier(good).with(files{"solve.sh": "#!/no/such/program\n"}), taskpkg.Task{OracleRef: "solve.sh"}, "oracle_failed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			check(t, newWorld(t).run(t, test.files, test.task), taskpkg.Error, test.code)
		})
	}
}

// TestFails has a case for each way in which the task's programs, and so a skill
// that they call, can prevent a reward. None is an error, since errors do not
// count.
func TestFails(t *testing.T) {
	const good = "#!/bin/sh\ntrue\n"
	solved := func(script string) files { return verifier(good).with(files{"app/x": "", "solve.sh": script}) }
	oracle := taskpkg.Task{OracleRef: "solve.sh", WorkingDir: "app"}
	tests := []struct {
		name  string
		files files
		task  taskpkg.Task
		code  taskpkg.Code
	}{
		{"oracle fails", verifier(good).with(files{"solve.sh": "exit 1"}), taskpkg.Task{OracleRef: "solve.sh"}, "oracle_failed"},
		{"oracle times out", verifier(good).with(files{"solve.sh": "sleep 60"}), taskpkg.Task{OracleRef: "solve.sh", Timeout: 300 * time.Millisecond}, "oracle_failed"},
		{"oracle removes the working folder", verifier(good).with(files{"app/x": "", "solve.sh": "rm -r /task/app"}), taskpkg.Task{OracleRef: "../solve.sh"[3:], WorkingDir: "app"}, "workdir_missing"},
		{"a program is missing", verifier("#!/bin/bash\nno-such-program\n"), taskpkg.Task{}, "verifier_not_started"},
		{"status 126", verifier("#!/bin/bash\n/etc/passwd\n"), taskpkg.Task{}, "verifier_not_started"},
		{"timeout", verifier("#!/bin/bash\necho 1 > /logs/verifier/reward.txt; sleep 60\n"), taskpkg.Task{Timeout: 300 * time.Millisecond}, "timeout"},
		{"signal", verifier("#!/bin/bash\nkill -SEGV $$\n"), taskpkg.Task{}, "signal"},
		{"oracle ends with 127", solved("exit 127"), oracle, "oracle_failed"},
		{"verifier ends with 127", verifier("#!/bin/bash\nexit 127\n"), taskpkg.Task{}, "verifier_not_started"},
		{"pretends that there is no sandbox", verifier("#!/bin/bash\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n"), taskpkg.Task{}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			check(t, newWorld(t).run(t, test.files, test.task), taskpkg.Fail, test.code)
		})
	}
	// What the oracle does to the folders keeps the verifier from nothing.
	for name, script := range map[string]string{
		"closes the root": "chmod 000 /task", "closes the working folder": "chmod 000 /task/app", "closes the logs": "chmod 000 /logs/verifier /logs",
		"replaces the logs": "mv /task/logs /task/x; touch /task/logs",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, newWorld(t).run(t, solved(script), oracle), taskpkg.Pass, "")
		})
	}
}

func env(name string) taskpkg.Task { return taskpkg.Task{Env: map[string]string{name: "value"}} }

// TestUnsupported has a case for each thing that this runner lacks.
func TestUnsupported(t *testing.T) {
	const good = "#!/bin/sh\ntrue\n"
	tests := []struct {
		name  string
		files files
		code  taskpkg.Code
	}{
		{"GPU", verifier(good).with(files{"task.toml": "[environment]\ngpus = 1\n"}), "gpu"},
		{"containers", verifier(good).with(files{"environment/docker-compose.yaml": "services:\n  main: {}\n  db: {}\n"}), "image_build"},
		{"packages", verifier("#!/bin/bash\napt-get update\napt-get install -y curl\n"), "network"},
		{"tools", verifier("#!/bin/bash\nuvx -p 3.13 -w pytest==8.4.1 pytest /tests/test_outputs.py\n"), "network"},
		{"download", verifier("#!/bin/bash\ncurl -LsSf https://example.com/install.sh | sh\n"), "network"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			check(t, newWorld(t).run(t, test.files, taskpkg.Task{}), taskpkg.Unsupported, test.code)
		})
	}
	for name, f := range map[string]files{
		"one container":  verifier(good).with(files{"environment/docker-compose.yaml": "services:\n  main: {}\n"}),
		"other settings": verifier(good).with(files{"task.toml": "version = \"1.0\"\nfuture = {a = 1}\n[environment]\ngpus = 0\nmemory = \"4G\"\n"}),
		"own server":     verifier("#!/bin/bash\n# pip install nothing\ncurl -s http://localhost:1/ http://127.0.0.1:2/ || true\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, newWorld(t).run(t, f, taskpkg.Task{}), taskpkg.Pass, "")
		})
	}
}

// TestNoBinding runs without a sandbox: relative paths work, absolute ones are unsupported.
func TestNoBinding(t *testing.T) {
	s, err := sandbox.New(sandbox.Options{Driver: sandbox.None, AllowNone: true})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, s)
	own := verifier("#!/bin/bash\nset -e\ncd \"$TASK_ROOT\"\ntouch \"$HOME/a\" \"$TMPDIR/b\"\necho 1 > \"$BENCHFLOW_REWARD_TEXT\"\n")
	check(t, w.run(t, own, taskpkg.Task{}), taskpkg.Pass, "")
	check(t, w.run(t, harbor(), taskpkg.Task{WorkingDir: "app"}), taskpkg.Unsupported, "absolute_paths")
}

// TestNoSandbox is an error that says what to do, never a pass or a fail.
func TestNoSandbox(t *testing.T) {
	s, err := sandbox.New(sandbox.Options{Program: "/no/such/bwrap"})
	if err != nil {
		t.Fatal(err)
	}
	o := newWorldWith(t, s).run(t, verifier("#!/bin/sh\ntrue\n"), taskpkg.Task{})
	check(t, o, taskpkg.Error, "sandbox_unavailable")
	if !strings.Contains(o.Message, "apt-get install bubblewrap") {
		t.Errorf("the message does not help: %s", o.Message)
	}
}

func TestCancelled(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	ref := w.serve(t, verifier("#!/bin/sh\nsleep 60\n").archive(t))
	check(t, w.runner.Run(ctx, taskpkg.Task{EnvironmentRef: ref}, nil), taskpkg.Error, "cancelled")
	w.checkRemoved(t)
}

// TestLimits: limits are enforced, and stored with the result.
func TestLimits(t *testing.T) {
	w := newWorld(t)
	const longest = 300 * time.Millisecond
	w.runner.Override().MaxTimeout = longest
	o := w.run(t, verifier("#!/bin/sh\nsleep 60\n"), taskpkg.Task{Timeout: time.Hour})
	check(t, o, taskpkg.Fail, "timeout")
	if o.Limits.Wall != longest {
		t.Errorf("limits are %+v", o.Limits)
	}
	w = newWorld(t)
	w.runner.Override().Programs.Disk, w.runner.Override().Programs.Memory = 8<<20, 64<<20
	o = w.run(t, verifier("#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10 11 12; do head -c 1000000 /dev/zero > $i; done; sleep 60\n"), taskpkg.Task{})
	check(t, o, taskpkg.Fail, "over_limit")
	o = w.run(t, verifier("#!/bin/sh\nperl -e '$x = \"x\" x 40e6; sleep 60' & perl -e '$x = \"x\" x 40e6; sleep 60'\n"), taskpkg.Task{})
	check(t, o, taskpkg.Fail, "out_of_memory")
}

// TestSweep removes what a dead process left, and nothing that may be in use.
func TestSweep(t *testing.T) {
	w := newWorldWith(t, nil)
	for name, age := range map[string]time.Duration{
		"whetstone-task-old": 25 * time.Hour,
		"whetstone-task-new": time.Hour, "other": 25 * time.Hour,
	} {
		dir := filepath.Join(w.dir, name)
		if err := os.MkdirAll(filepath.Join(dir, "root", "deep"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := w.runner.Sweep(); removed != 1 || err != nil {
		t.Errorf("removed %d, %v", removed, err)
	}
	left, err := filepath.Glob(filepath.Join(w.dir, "*"))
	want := []string{filepath.Join(w.dir, "other"), filepath.Join(w.dir, "whetstone-task-new")}
	if diff := cmp.Diff(want, left); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestSweepSparesRunning: a trial goes on after the machine was suspended for a day.
func TestSweepSparesRunning(t *testing.T) {
	w := newWorld(t)
	archive := passing().archive(t)
	w.answers["/suspended"] = func(rw http.ResponseWriter, _ *http.Request) {
		dirs, err := filepath.Glob(filepath.Join(w.dir, "whetstone-task-*"))
		if err != nil || len(dirs) != 1 {
			t.Errorf("the folders of trials are %q, %v", dirs, err)
		}
		for _, dir := range dirs {
			if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-25*time.Hour)); err != nil {
				t.Error(err)
			}
		}
		if removed, err := w.runner.Sweep(); removed != 0 || err != nil {
			t.Errorf("removed %d, %v", removed, err)
		}
		_, _ = rw.Write(archive)
	}
	check(t, w.run(t, nil, taskpkg.Task{EnvironmentRef: w.url + "/suspended"}), taskpkg.Pass, "")
}

// TestOutput: the tail of the output is kept, without secrets.
func TestOutput(t *testing.T) {
	w := newWorld(t)
	o := w.run(t, verifier(`#!/bin/bash
head -c 100000 /dev/zero | tr '\0' x
echo
echo "the key sk-abcdefghijklmnop1234, DB_PASSWORD=hunter22, Authorization: Bearer abcdefgh12345"
echo "postgres://user:hunter22@host/db" >&2
`), taskpkg.Task{})
	check(t, o, taskpkg.Pass, "")
	const want = "\nthe key [secret], DB_PASSWORD=[secret], Authorization: Bearer [secret]\n"
	if got := string(o.Stdout.Tail); !strings.HasSuffix(got, want) || o.Stdout.Discarded == 0 || len(got) > 64<<10 {
		t.Errorf("stdout: %d bytes, %d discarded, ending in %q", len(got), o.Stdout.Discarded, got[max(0, len(got)-200):])
	}
	if got := string(o.Stderr.Tail); got != "postgres://user:[secret]@host/db\n" {
		t.Errorf("stderr: %q", got)
	}
}

// TestHostileArchives: the verifier of a malicious archive never runs.
func TestHostileArchives(t *testing.T) {
	w := newWorld(t)
	outside := filepath.Join(sandboxtest.Folder(t), "outside")
	member := func(h tar.Header) []byte {
		var b bytes.Buffer
		zipped := gzip.NewWriter(&b)
		a := tar.NewWriter(zipped)
		h.Mode, h.Format = 0o755, tar.FormatPAX
		for _, header := range []tar.Header{{Name: "tests/test.sh", Mode: 0o755}, h} {
			if err := a.WriteHeader(&header); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if err := zipped.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	tests := map[string][]byte{
		"empty":            {},
		"not an archive":   []byte("<html>not found</html>"),
		"truncated":        verifier("#!/bin/sh\n").archive(t)[:60],
		"traversal":        member(tar.Header{Name: "../outside"}),
		"absolute":         member(tar.Header{Name: outside}),
		"link outside":     member(tar.Header{Name: "app", Typeflag: tar.TypeSymlink, Linkname: filepath.Dir(outside)}),
		"hard link":        member(tar.Header{Name: "app", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}),
		"device":           member(tar.Header{Name: "app", Typeflag: tar.TypeChar}),
		"pipe":             member(tar.Header{Name: "app", Typeflag: tar.TypeFifo}),
		"bomb":             verifier("#!/bin/sh\n").with(files{"zeros": strings.Repeat("\x00", 60<<20)}).archive(t),
		"file that is dir": member(tar.Header{Name: "tests/test.sh/x"}),
	}
	w.runner.Override().Archive = taskpkg.NewArchiveLimits(20 << 20)
	for name, archive := range tests {
		t.Run(name, func(t *testing.T) {
			o := w.run(t, nil, taskpkg.Task{EnvironmentRef: w.serve(t, archive)})
			check(t, o, taskpkg.Error, "archive_invalid")
			if _, err := os.Lstat(outside); err == nil {
				t.Error("it wrote outside")
			}
		})
	}
}

// TestResources: what a case and its task.toml ask for, and the most that the
// suite allows, become limits. A limit below what the task asks for is no fail.
func TestResources(t *testing.T) {
	w := newWorld(t)
	w.runner.Override().Machine = taskfile.Resources{CPUs: 2, Memory: 1 << 30, Storage: 1 << 30}
	manifest := files{"task.toml": "[environment]\ncpus = 1\nmemory_mb = 256\nstorage_mb = 64\n[agent]\ntimeout_sec = 0.3\n"}
	o := w.run(t, verifier("true").with(manifest), taskpkg.Task{})
	check(t, o, taskpkg.Pass, "")
	if o.Limits.CPUs != 1 || o.Limits.Memory != 256<<20 || o.Limits.Disk != 64<<20 {
		t.Errorf("limits are %+v", o.Limits)
	}
	o = w.run(t, verifier("true").with(manifest), taskpkg.Task{
		Timeout: time.Minute, Resources: taskfile.Resources{CPUs: 8, Memory: 512 << 20},
		Most: taskfile.Resources{Memory: 128 << 20, Processes: 50, Timeout: 10 * time.Second},
	})
	if l := o.Limits; l.CPUs != 2 || l.Memory != 128<<20 || l.Disk != 64<<20 || l.Processes != 50 || l.Wall != 10*time.Second {
		t.Errorf("limits are %+v", l)
	}
	write := verifier("for i in 1 2 3 4 5 6; do head -c 2000000 /dev/zero > $i; done; sleep 20")
	check(t, w.run(t, write, taskpkg.Task{Resources: taskfile.Resources{Storage: 8 << 20}}), taskpkg.Fail, "over_limit")
	check(t, w.run(t, write, taskpkg.Task{
		Resources: taskfile.Resources{Storage: 1 << 30}, Most: taskfile.Resources{Storage: 8 << 20},
	}), taskpkg.Unsupported, "resources")
	slow := verifier("true").with(manifest).with(files{"solution/solve.sh": "sleep 20\n"})
	check(t, w.run(t, slow, taskpkg.Task{OracleRef: "solution/solve.sh"}), taskpkg.Fail, "oracle_failed")
}
