//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
)

// unsafe returns the driver none.
func unsafe(t *testing.T) sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.New(sandbox.Options{Driver: sandbox.None, AllowNone: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// each runs a test with each driver that works on this machine.
func each(t *testing.T, test func(*testing.T, sandbox.Sandbox)) {
	t.Run("bubblewrap", func(t *testing.T) { test(t, sandboxtest.Bubblewrap(t)) })
	t.Run("none", func(t *testing.T) { test(t, unsafe(t)) })
}

func TestRun(t *testing.T) {
	tests := []struct {
		name           string
		spec           sandbox.Spec
		code           int
		stdout, stderr string
	}{
		{"success", sandbox.Spec{Argv: []string{"sh", "-c", "echo out; echo err >&2"}}, 0, "out\n", "err\n"},
		{"status", sandbox.Spec{Argv: []string{"sh", "-c", "exit 7"}}, 7, "", ""},
		{"signal", sandbox.Spec{Argv: []string{"sh", "-c", "kill -SEGV $$"}}, 128 + 11, "", ""},
		{"input", sandbox.Spec{Argv: []string{"cat"}, Stdin: []byte("given")}, 0, "given", ""},
		{"unread input", sandbox.Spec{Argv: []string{"true"}, Stdin: make([]byte, 1<<20)}, 0, "", ""},
		{"arguments as given", sandbox.Spec{Argv: []string{"printf", "%s|", "a b", "", "$HOME", "--", "-x"}}, 0, "a b||$HOME|--|-x|", ""},
		{"environment", sandbox.Spec{Argv: []string{"sh", "-c", `echo "$A-$PATH"`}, Env: map[string]string{"A": "a\nb", "PATH": "/bin:/usr/bin"}}, 0, "a\nb-/bin:/usr/bin\n", ""},
		{"working folder", sandbox.Spec{Argv: []string{"pwd"}, Dir: "/usr"}, 0, "/usr\n", ""},
	}
	each(t, func(t *testing.T, s sandbox.Sandbox) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				result, err := s.Run(t.Context(), test.spec)
				if err != nil {
					t.Fatal(err)
				}
				got := []any{result.ExitCode, string(result.Stdout.Tail), string(result.Stderr.Tail), result.Exceeded}
				want := []any{test.code, test.stdout, test.stderr, sandbox.Limit("")}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	})
}

// TestPeakMemory: what a program takes between two checks counts, up to the limit that
// it is killed for.
func TestPeakMemory(t *testing.T) {
	t.Parallel()
	s := sandboxtest.Bubblewrap(t)
	report, err := s.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(report.InForce, "; "), "cgroup") {
		t.Skip("programs have no cgroups here, and the monitor may see less")
	}
	const limit = 64 << 20
	result, err := s.Run(t.Context(), sandbox.Spec{Argv: []string{"tail", "/dev/zero"}, Limits: sandbox.Limits{Memory: limit}})
	if err != nil || result.Exceeded != sandbox.MemoryLimit || result.PeakMemory < limit/10*9 {
		t.Errorf("exceeded %q, with a peak of %d MiB: %v", result.Exceeded, result.PeakMemory>>20, err)
	}
}

// TestEnvironmentOfDrivers: the programs bwrap and docker do not get the environment of
// the service either, but docker finds its engine, and without a sandbox the case is
// given only its own.
func TestEnvironmentOfDrivers(t *testing.T) {
	secret := sandboxtest.PlantSecret(t)
	t.Setenv("DOCKER_HOST", "unix:///run/engine.sock")
	const show = "env; cat /proc/self/environ"
	dir := sandboxtest.Folder(t)
	if err := os.Chmod(dir, 0o777); err != nil { // the program runs as another user
		t.Fatal(err)
	}
	seen := filepath.Join(dir, "seen")
	program := script(t, "{ "+show+"; } >>"+seen+" 2>&1\nexit 1")
	for _, o := range []sandbox.Options{
		{Program: program}, {Driver: sandbox.Docker, Image: "x", Program: program}, {Driver: sandbox.None, AllowNone: true},
	} {
		s, err := sandbox.New(o)
		if err != nil {
			t.Fatal(err)
		}
		result, _ := s.Run(t.Context(), sandbox.Spec{Argv: []string{"sh", "-c", show}, Env: map[string]string{"OWN": "given"}}) // the stand-in fails
		_, _ = s.Check(t.Context())
		content, err := os.ReadFile(seen)
		if err != nil && o.Driver != sandbox.None {
			t.Fatal(err)
		}
		if all := string(content) + string(result.Stdout.Tail); strings.Contains(all, secret) || !strings.Contains(all, "PATH=") {
			t.Errorf("%q: a program sees %s", o.Driver, all)
		}
		if o.Driver == sandbox.Docker && !strings.Contains(string(content), "DOCKER_HOST=unix") {
			t.Errorf("docker does not find its engine: %s", content)
		}
		if o.Driver == sandbox.None && !strings.Contains(string(result.Stdout.Tail), "OWN=given") {
			t.Errorf("without a sandbox: %q", result.Stdout.Tail)
		}
	}
}

// TestRunCannotStart expects the exit statuses of a shell.
func TestRunCannotStart(t *testing.T) {
	each(t, func(t *testing.T, s sandbox.Sandbox) {
		for argv0, want := range map[string]int{"no-such-program": 127, "/no/such/program": 127, "/etc": 126} {
			result, err := s.Run(t.Context(), sandbox.Spec{Argv: []string{argv0}})
			if err != nil || result.ExitCode != want {
				t.Errorf("%s: status %d, %v, want %d", argv0, result.ExitCode, err, want)
			}
		}
	})
}

func TestRunMounts(t *testing.T) {
	s := sandboxtest.Bubblewrap(t)
	dir := sandboxtest.Folder(t)
	for _, name := range []string{"in", "out"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { // root's programs must get through
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "in", "f"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	result, err := s.Run(t.Context(), sandbox.Spec{
		Argv: []string{"cp", "/given/f", "/app/deep/f"}, Dir: "/app/deep",
		Mounts: []sandbox.Mount{
			{Source: filepath.Join(dir, "in"), Target: "/given"},
			{Source: filepath.Join(dir, "out"), Target: "/app/deep", Writable: true},
		},
	})
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("status %d, %v: %s", result.ExitCode, err, result.Stderr.Tail)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "out", "f")); err != nil || string(got) != "content" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRunRefuses(t *testing.T) {
	s := sandboxtest.Bubblewrap(t)
	dir := sandboxtest.Folder(t)
	mount := func(source, target string) []sandbox.Mount {
		return []sandbox.Mount{{Source: source, Target: target, Writable: true}}
	}
	tests := map[string]sandbox.Spec{
		"no program":            {},
		"relative folder":       {Argv: []string{"true"}, Dir: "x"},
		"NUL":                   {Argv: []string{"true", "a\x00b"}},
		"long variable":         {Argv: []string{"true"}, Env: map[string]string{"A": strings.Repeat("x", 1<<17)}},
		"name of a variable":    {Argv: []string{"true"}, Env: map[string]string{"A=B": "c"}},
		"mount at the root":     {Argv: []string{"true"}, Mounts: mount(dir, "/")},
		"mount at /proc":        {Argv: []string{"true"}, Mounts: mount(dir, "/proc/x")},
		"mount at a dirty path": {Argv: []string{"true"}, Mounts: mount(dir, "/a/../b")},
		"mount of nothing":      {Argv: []string{"true"}, Mounts: mount(dir+"/missing", "/a")},
		"mount in a mount":      {Argv: []string{"true"}, Mounts: append(mount(dir, "/a"), mount(dir, "/a/b")...)},
		"mount twice":           {Argv: []string{"true"}, Mounts: append(mount(dir, "/a"), mount(dir, "/a")...)},
	}
	for name, spec := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := s.Run(t.Context(), spec); !fault.Is(err, fault.Malformed) {
				t.Errorf("got %v, want a Malformed fault", err)
			}
		})
	}
	_, err := unsafe(t).Run(t.Context(), sandbox.Spec{Argv: []string{"true"}, Mounts: mount(dir, "/a")})
	if !fault.Is(err, fault.Unsupported) {
		t.Errorf("without a sandbox: got %v, want an Unsupported fault", err)
	}
}

// TestRunUnavailable expects a message that says what to do.
func TestRunUnavailable(t *testing.T) {
	s, err := sandbox.New(sandbox.Options{Program: "/no/such/bwrap"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Run(t.Context(), sandbox.Spec{Argv: []string{"true"}})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "apt-get install bubblewrap") {
		t.Errorf("Run: got %v", err)
	}
	if _, err := s.Check(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Check: got %v", err)
	}
}

// TestRunBroken expects bwrap's own failure as an error, and not as the exit
// status of the program.
func TestRunBroken(t *testing.T) {
	s, err := sandbox.New(sandbox.Options{Program: script(t, "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Run(t.Context(), sandbox.Spec{Argv: []string{"true"}})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "uid map") ||
		!strings.Contains(err.Error(), "unprivileged_userns_clone") {
		t.Errorf("got %v", err)
	}
}

// TestRunWithoutFolder expects the same for a missing mount.
func TestRunWithoutFolder(t *testing.T) {
	_, err := sandboxtest.Bubblewrap(t).Run(t.Context(), sandbox.Spec{Argv: []string{"true"}, Dir: "/no/such/folder"})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("got %v", err)
	}
}

func script(t *testing.T, text string) string {
	t.Helper()
	dir := sandboxtest.Folder(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunTime(t *testing.T) {
	each(t, func(t *testing.T, s sandbox.Sandbox) {
		t.Parallel()
		limits := sandbox.Limits{Wall: 3 * time.Second, Grace: time.Minute} // in which any machine starts a shell
		result, err := s.Run(t.Context(), sandbox.Spec{
			Argv: []string{"sh", "-c", `trap 'echo bye; exit 3' TERM; while :; do sleep 0.01; done`}, Limits: limits,
		})
		if err != nil || result.Exceeded != sandbox.WallLimit || string(result.Stdout.Tail) != "bye\n" || result.ExitCode != 3 {
			t.Errorf("polite: %+v, %v", result, err)
		}
		limits.Grace = 100 * time.Millisecond
		result, err = s.Run(t.Context(), sandbox.Spec{
			Argv: []string{"sh", "-c", `trap '' TERM; while :; do sleep 0.01; done`}, Limits: limits,
		})
		if err != nil || result.Exceeded != sandbox.WallLimit || result.ExitCode != 128+9 {
			t.Errorf("stubborn: %+v, %v", result, err)
		}
	})
}

func TestRunStopped(t *testing.T) {
	each(t, func(t *testing.T, s sandbox.Sandbox) {
		// At once is before the program has started.
		for _, after := range []time.Duration{0, 100 * time.Millisecond} {
			stop := make(chan struct{})
			time.AfterFunc(after, func() { close(stop) })
			result, err := s.Run(t.Context(), sandbox.Spec{Argv: []string{"sleep", "60"}, Stop: stop})
			if err != nil || result.Exceeded != sandbox.Stopped || result.ExitCode == 0 || result.Duration > time.Hour {
				t.Errorf("%+v, %v", result, err)
			}
		}
	})
}

func TestRunCancelled(t *testing.T) {
	each(t, func(t *testing.T, s sandbox.Sandbox) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := s.Run(ctx, sandbox.Spec{Argv: []string{"sleep", "60"}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err = s.Run(ctx, sandbox.Spec{Argv: []string{"sleep", "60"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before the start: got %v", err)
		}
	})
}

// TestRunDoesNotWaitForOrphans checks that Run does not wait for the output of
// processes that the program left behind.
func TestRunDoesNotWaitForOrphans(t *testing.T) {
	each(t, func(t *testing.T, s sandbox.Sandbox) {
		result, err := s.Run(t.Context(), sandbox.Spec{
			Argv: []string{"sh", "-c", "sleep 60 & echo started"}, Limits: sandbox.Limits{Grace: 100 * time.Millisecond},
		})
		if err != nil || result.ExitCode != 0 || string(result.Stdout.Tail) != "started\n" || result.Duration > 30*time.Second {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

func TestNew(t *testing.T) {
	for _, o := range []sandbox.Options{{Driver: sandbox.None}, {Driver: sandbox.Docker}, {Driver: "chroot"}} {
		if _, err := sandbox.New(o); !fault.Is(err, fault.Malformed) {
			t.Errorf("%+v: got %v, want a Malformed fault", o, err)
		}
	}
}

func TestCheck(t *testing.T) {
	report, err := sandboxtest.Bubblewrap(t).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"network namespace without interfaces", "read-only system", "no new privileges",
		"killed first when memory runs out (oom_score_adj)",
	} {
		if !slices.Contains(report.InForce, want) {
			t.Errorf("%q is not in force: %+v", want, report)
		}
	}
	all := strings.Join(append(report.InForce, report.Missing...), "\n")
	if !strings.Contains(all, "cgroup v") && !strings.Contains(all, "no cgroup") {
		t.Errorf("it does not say what enforces the limit on memory: %+v", report)
	}
	report, err = sandbox.WithoutCgroups().Check(t.Context())
	if err != nil || !strings.Contains(strings.Join(report.Missing, "\n"), "no cgroup, as this process was started") {
		t.Errorf("without cgroups: %+v, %v", report, err)
	}
	report, err = unsafe(t).Check(t.Context())
	if err != nil || len(report.Missing) == 0 {
		t.Errorf("without a sandbox nothing is missing: %+v, %v", report, err)
	}
}
