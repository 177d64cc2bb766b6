//go:build linux

package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
)

// serverVariable makes the test binary act as a server that runs a script.
const serverVariable = "SANDBOX_TEST_SERVER"

func TestMain(m *testing.M) {
	if script := os.Getenv(serverVariable); script != "" {
		os.Exit(serve(script))
	}
	os.Exit(m.Run())
}

func serve(script string) int {
	s, err := sandbox.New(sandbox.Options{})
	if err != nil {
		return 1
	}
	result, err := s.Run(context.Background(), sandbox.Spec{Argv: []string{"sh", "-c", script}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Print(string(result.Stdout.Tail))
	return 0
}

// testBinary returns a command that runs this binary from a world-readable
// folder, as the user nobody if this is root.
func testBinary(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	dir := sandboxtest.Folder(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "test")
	if output, err := exec.Command("cp", os.Args[0], program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "USER=nobody", "TMPDIR=" + os.TempDir()}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return cmd
}

// TestPriority checks that programs have a high oom_score_adj and cannot lower
// it, whatever user the service runs as.
func TestPriority(t *testing.T) {
	sandboxtest.Bubblewrap(t)
	const script = "cat /proc/self/oom_score_adj; echo 0 2>/dev/null >/proc/self/oom_score_adj; cat /proc/1/oom_score_adj /proc/self/oom_score_adj"
	for _, user := range []string{"this user", "nobody"} {
		server := testBinary(t)
		server.Env = append(server.Env, serverVariable+"="+script)
		if user == "this user" {
			server.SysProcAttr = nil
		}
		output, err := server.CombinedOutput()
		if err != nil || string(output) != "1000\n1000\n1000\n" {
			t.Errorf("as %s: got %q, %v", user, output, err)
		}
	}
}

// TestAsNobody attacks a service that runs as an ordinary user: it cannot create
// cgroups or read folders without permissions.
func TestAsNobody(t *testing.T) {
	sandboxtest.Bubblewrap(t)
	if os.Geteuid() != 0 {
		t.Skip("it is one already")
	}
	cmd := testBinary(t, "-test.run=^TestBubblewrap$/(hide|take|let|fill|nest)", "-test.v")
	cmd.Env = append(cmd.Env, sandboxtest.AttackerVariable+"="+sandboxtest.Attacker(t))
	output, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(output), "    --- PASS: ") < 20 {
		// The failures once more at the end, where a long log is cut last.
		t.Errorf("%v\n%s\n%s", err, output, failures(string(output)))
	}
}

// failures is what the failed tests said in the output of a test binary.
func failures(output string) string {
	running := regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +(\S+)`)
	ended := regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+)`)
	said, current := map[string]string{}, ""
	var failed strings.Builder
	for line := range strings.Lines(output) {
		if name := running.FindStringSubmatch(line); name != nil {
			current = name[1]
		} else if end := ended.FindStringSubmatch(line); end == nil {
			said[current] += line
		} else if end[1] == "FAIL" {
			failed.WriteString(line + said[end[2]])
		}
	}
	return failed.String()
}

func TestBubblewrap(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Bubblewrap(t))
}

// TestWithoutCgroups checks that the monitor enforces the limits.
func TestWithoutCgroups(t *testing.T) {
	sandboxtest.Bubblewrap(t)
	sandboxtest.RunOnMemory(t, sandbox.WithoutCgroups())
}

// TestServerKilled checks that a program ends with the server, whenever the
// server is killed.
func TestServerKilled(t *testing.T) {
	sandboxtest.Bubblewrap(t)
	t.Cleanup(func() { _, _ = sandbox.New(sandbox.Options{}) }) // it removes the cgroups that are left
	for i := range 10 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			killServer(t, fmt.Sprintf("60.%d%d", i, time.Now().UnixNano()), time.Duration(i)*3*time.Millisecond)
		})
	}
}

// killServer kills a server some time after it has started bwrap.
func killServer(t *testing.T, marker string, after time.Duration) {
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverVariable+"=exec setsid sleep "+marker)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill() }() // in case the test ends early
	eventually(t, "bwrap runs", func() bool { return len(sandboxtest.Processes(marker)) > 0 })
	time.Sleep(after)
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // it was killed
	eventually(t, "the program is gone", func() bool { return len(sandboxtest.Processes(marker)) == 0 })
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never true: %s", what)
		}
	}
}

// TestDiskFull expects an error, not a result, for a program that fails on a
// full disk.
func TestDiskFull(t *testing.T) {
	s := sandboxtest.Bubblewrap(t)
	dir := sandboxtest.Folder(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=755"); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	spec := sandbox.Spec{
		Argv: []string{"sh", "-c", "exit 1"}, Mounts: []sandbox.Mount{{Source: dir, Target: "/work", Writable: true}},
	}
	if _, err := s.Run(t.Context(), spec); err != nil {
		t.Errorf("with room: %v", err)
	}
	spec.Argv = []string{"sh", "-c", "head -c 100M /dev/zero > /work/large"}
	if _, err := s.Run(t.Context(), spec); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("without room: %v", err)
	}
}
