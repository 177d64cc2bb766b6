// Package sandboxtest is the conformance suite of sandbox drivers: programs that
// try to escape or to harm the machine, and must fail. No attempt sends anything
// to an address other than the test's own listener on loopback, and each is
// limited, so that it would not harm the machine without a sandbox.
package sandboxtest

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// bubblewrap returns the default sandbox and whether it works here.
var bubblewrap = sync.OnceValues(func() (sandbox.Sandbox, error) {
	s, err := sandbox.New(sandbox.Options{})
	if err != nil {
		return nil, err
	}
	_, err = s.Run(context.Background(), sandbox.Spec{Argv: []string{"true"}})
	return s, err
})

// Bubblewrap returns the default sandbox. Where the machine has none, the test
// is skipped, or fails if WHETSTONE_REQUIRE=all.
func Bubblewrap(t testing.TB) sandbox.Sandbox {
	t.Helper()
	s, err := bubblewrap()
	if fault.Is(err, fault.Unavailable) && os.Getenv("WHETSTONE_REQUIRE") != "all" {
		t.Skipf("needs bubblewrap: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Folder returns a new folder that can be a mount. Unlike that of t.TempDir it
// can be reached by the unprivileged user that programs of root run as, and it
// is removed whatever a program has done to it.
func Folder(t testing.TB) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(base, "sandboxtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sandbox.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A world is a sandbox under attack, and a machine to attack.
type world struct {
	sandbox  sandbox.Sandbox
	attacker string // folder of the attacker's program
	shared   string // folder that the attacker may write to, at /shared
	secret   string // file of the machine that the attacker must not read or change
	marker   string // unique argument of the attack's processes
}

const (
	attackerDir = "/attacker"
	sharedDir   = "/shared"
	secretText  = "the server's own data"
)

// Root makes a root without programs of its own, beside links to /usr, and with
// these files. What programs change is in a folder of its own.
func Root(t testing.TB, files map[string]string) sandbox.Root {
	t.Helper()
	root := sandbox.Root{Dir: Folder(t), Changes: Folder(t)}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		check(os.Symlink("usr/"+name, filepath.Join(root.Dir, name)))
	}
	for _, name := range []string{"app", "dev", "etc", "proc", "root", "tmp", "usr"} {
		check(os.Mkdir(filepath.Join(root.Dir, name), 0o755))
	}
	for name, content := range files {
		check(os.WriteFile(filepath.Join(root.Dir, name), []byte(content), 0o644))
	}
	check(filepath.WalkDir(root.Dir, func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, sandbox.RootUser(), sandbox.RootUser()))
	}))
	return root
}

// AttackerVariable is the environment variable with the attacker's folder, for a
// test that runs as a user who cannot build it.
const AttackerVariable = "SANDBOX_TEST_ATTACKER"

// Attacker compiles the attacker and returns its folder: with the test's own
// binary, the race detector's memory would count against the limits.
func Attacker(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv(AttackerVariable); dir != "" {
		return dir
	}
	dir := Folder(t)
	cmd := exec.Command("go", "build", "-o", dir, "github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest/attacker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("attacker: %v: %s", err, output)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// FindSecret are the arguments of the attacker to search for a text in what it can
// read of processes: its own arguments do not have it.
func FindSecret(text string) []string { return []string{"secrets", hex.EncodeToString([]byte(text))} }

// PlantSecret puts a text into the environment of this process, as a setting of the
// server, and into an open file that it was started with. Sandboxes that exist
// already do not know of the file.
func PlantSecret(t *testing.T) string {
	t.Helper()
	text := fmt.Sprintf("planted-%d", time.Now().UnixNano())
	for _, name := range []string{"WHETSTONE_SECRET_KEY", "WHETSTONE_DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "PLANTED"} {
		t.Setenv(name, text)
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open(file, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	return text
}

func newWorld(t *testing.T, s sandbox.Sandbox, attacker string) *world {
	t.Helper()
	w := &world{sandbox: s, attacker: attacker, shared: Folder(t), marker: fmt.Sprintf("60.%d", time.Now().UnixNano())}
	w.secret = filepath.Join(Folder(t), "secret")
	if err := os.WriteFile(w.secret, []byte(secretText), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.checkUnharmed(t) })
	return w
}

// checkUnharmed checks the machine after an attack.
func (w *world) checkUnharmed(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(w.secret)
	if err != nil || string(content) != secretText {
		t.Errorf("the secret file is now %q, %v", content, err)
	}
	if left := Processes(w.marker); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}

// Processes returns the command lines on this machine that contain a text.
func Processes(text string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(text)) {
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return found
}

// limits are low, so that attacks exceed them quickly.
func limits() sandbox.Limits {
	return sandbox.Limits{
		Wall: time.Minute, Grace: 100 * time.Millisecond, Memory: 128 << 20, Processes: 32,
		FileSize: 1 << 20, Disk: 8 << 20, Files: 1000,
	}
}

func (w *world) spec(l sandbox.Limits, attempt ...string) sandbox.Spec {
	return sandbox.Spec{
		Argv: append([]string{attackerDir + "/attacker"}, attempt...),
		Mounts: []sandbox.Mount{
			{Source: w.attacker, Target: attackerDir},
			{Source: w.shared, Target: sharedDir, Writable: true},
		},
		Limits: l,
	}
}

func (w *world) run(t *testing.T, l sandbox.Limits, attempt ...string) sandbox.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	result, err := w.sandbox.Run(ctx, w.spec(l, attempt...))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// denied expects an attempt to fail and to report that.
func (w *world) denied(t *testing.T, attempt ...string) sandbox.Result {
	t.Helper()
	result := w.run(t, limits(), attempt...)
	said := strings.Contains(string(result.Stdout.Tail), "denied:")
	if result.ExitCode != 0 || result.Exceeded != "" || !said {
		t.Errorf("%s: status %d, exceeded %q\nstdout: %s\nstderr: %s",
			attempt, result.ExitCode, result.Exceeded, result.Stdout.Tail, result.Stderr.Tail)
	}
	return result
}

// stopped expects an attempt to be killed for a limit, and not for its time.
func (w *world) stopped(t *testing.T, l sandbox.Limits, want sandbox.Limit, attempt ...string) {
	t.Helper()
	result := w.run(t, l, attempt...)
	if result.Exceeded != want {
		t.Errorf("%s: status %d, exceeded %q, want %q\nstdout: %s\nstderr: %.2000s",
			attempt, result.ExitCode, result.Exceeded, want, result.Stdout.Tail, result.Stderr.Tail)
	}
}
