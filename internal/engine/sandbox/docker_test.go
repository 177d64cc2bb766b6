//go:build linux

package sandbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
)

func dockerWith(t *testing.T, text string) sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.New(sandbox.Options{Driver: sandbox.Docker, Image: "debian:12", Program: script(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDockerArguments checks the arguments of the engine: tests have no engine.
func TestDockerArguments(t *testing.T) {
	s := dockerWith(t, `[ "$1" = rm ] || printf '%s\n' "$@"`)
	in, out := sandboxtest.Folder(t), sandboxtest.Folder(t)
	result, err := s.Run(t.Context(), sandbox.Spec{
		Argv: []string{"bash", "tests/test.sh"}, Env: map[string]string{"A": "b"}, Dir: "/task",
		Mounts: []sandbox.Mount{{Source: in, Target: "/given"}, {Source: out, Target: "/tmp", Writable: true}},
		Limits: sandbox.Limits{Memory: 1 << 30, Processes: 64, FileSize: 1 << 20, CPU: 9 * time.Second, Disk: 2 << 20, Files: 10},
	})
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("status %d, %v", result.ExitCode, err)
	}
	got := strings.ReplaceAll(string(result.Stdout.Tail), "\n", " ")
	for _, want := range []string{
		"run --rm ", " --pull never ", " --network none ", " --read-only ", " --cap-drop ALL ", " --security-opt no-new-privileges ",
		" --ipc private ", " --memory 1073741824 --memory-swap 1073741824 ", " --pids-limit 64 ", " --ulimit fsize=1048576 ", " --ulimit cpu=10 ",
		" --tmpfs /home/sandbox:rw,exec,nosuid,nodev,mode=1777,size=2097152,nr_inodes=10 ",
		` --mount type=bind,"source=` + in + `","target=/given",readonly `, ` --mount type=bind,"source=` + out + `","target=/tmp" `,
		" --env A=b ", " --env HOME=/home/sandbox ", " --workdir /task debian:12 bash tests/test.sh ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	for _, unwanted := range []string{"--tmpfs /tmp", "--user 0", "--privileged", "docker.sock"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("%q is in %s", unwanted, got)
		}
	}
}

func TestDockerUnavailable(t *testing.T) {
	spec := sandbox.Spec{Argv: []string{"true"}}
	s := dockerWith(t, `echo "docker: Cannot connect to the Docker daemon." >&2; exit 125`)
	if _, err := s.Run(t.Context(), spec); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "Cannot connect") {
		t.Errorf("no engine: got %v", err)
	}
	if _, err := s.Check(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("check: got %v", err)
	}
	s = dockerWith(t, `[ "$1" != events ] || { echo start; exit; }; echo "docker: I am the program." >&2; exit 125`)
	if result, err := s.Run(t.Context(), spec); err != nil || result.ExitCode != 125 {
		t.Errorf("a program's own status: %d, %v", result.ExitCode, err)
	}
	s = dockerWith(t, `[ "$1" != events ] || { [ "$9" != event=oom ] || echo oom; exit; }; exit 137`)
	if result, err := s.Run(t.Context(), spec); err != nil || result.Exceeded != sandbox.MemoryLimit {
		t.Errorf("out of memory: exceeded %q, %v", result.Exceeded, err)
	}
	missing, err := sandbox.New(sandbox.Options{Driver: sandbox.Docker, Image: "x", Program: "/no/such/docker"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := missing.Run(t.Context(), spec); !fault.Is(err, fault.Unavailable) {
		t.Errorf("no program: got %v", err)
	}
}
