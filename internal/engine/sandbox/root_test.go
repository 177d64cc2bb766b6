//go:build linux

package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
)

// system mounts the machine's programs into a root that has none.
var system = sandbox.Mount{Source: "/usr", Target: "/usr"}

// runIn runs a shell script in a root, with mounts beside the system's.
func runIn(t *testing.T, root sandbox.Root, script string, mounts ...sandbox.Mount) string {
	t.Helper()
	result, err := sandboxtest.Bubblewrap(t).Run(t.Context(), sandbox.Spec{
		Argv: []string{"sh", "-c", script}, Root: &root, Mounts: append(mounts, system),
	})
	if err != nil {
		t.Fatal(err)
	}
	if result.ExitCode != 0 {
		t.Fatalf("status %d: %s", result.ExitCode, result.Stderr.Tail)
	}
	return string(result.Stdout.Tail)
}

// TestRoot: programs see the root's files and not the machine's, may change all of
// them, and see the changes of earlier ones. The files themselves stay as they are.
func TestRoot(t *testing.T) {
	for _, copied := range []bool{false, true} {
		root := sandboxtest.Root(t, map[string]string{"/app/data.txt": "given\n", "/etc/os-release": "ID=image\n"})
		if copied {
			root.Changes = ""
		}
		got := runIn(t, root, "id -u; pwd; cat /etc/os-release /app/data.txt; echo $HOME; ls / | tr '\\n' ' '; touch /new /tmp/t /app/t")
		if want := "0\n/\nID=image\ngiven\n/root\napp bin dev etc lib lib64 proc root sbin tmp usr "; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		runIn(t, root, "echo changed >/app/data.txt; rm -r /etc/os-release; mv /app /moved; mkdir /app")
		if got := runIn(t, root, "cat /moved/data.txt; ls /app /etc /new"); got != "changed\n/new\n\n/app:\n\n/etc:\nhosts\n" {
			t.Errorf("the next program sees %q", got)
		}
		content, err := os.ReadFile(filepath.Join(root.Dir, "app/data.txt"))
		if !copied && (err != nil || string(content) != "given\n") {
			t.Errorf("the root itself was changed: %q, %v", content, err)
		}
	}
}

// TestRootLimits: what a program changes in a root counts against its limit of disk.
func TestRootLimits(t *testing.T) {
	root := sandboxtest.Root(t, nil)
	result, err := sandboxtest.Bubblewrap(t).Run(t.Context(), sandbox.Spec{
		Argv: []string{"sh", "-c", "head -c 9000000 /dev/zero >/zeros; sleep 60"}, Root: &root, Mounts: []sandbox.Mount{system},
		Limits: sandbox.Limits{Disk: 8 << 20},
	})
	if err != nil || result.Exceeded != sandbox.DiskLimit {
		t.Errorf("got %+v, %v", result, err)
	}
}

// TestRootMountPoints: a program cannot redirect the mounts of the next one.
func TestRootMountPoints(t *testing.T) {
	outside, given := sandboxtest.Folder(t), sandboxtest.Folder(t)
	if err := os.WriteFile(filepath.Join(given, "seen"), []byte("given"), 0o644); err != nil {
		t.Fatal(err)
	}
	root := sandboxtest.Root(t, nil)
	runIn(t, root, "ln -s "+outside+" /tests; echo file >/logs; mkdir /a; ln -s /usr /a/b")
	for _, target := range []string{"/tests", "/logs", "/a/b/c"} {
		mount := sandbox.Mount{Source: given, Target: target, Writable: true}
		if got := runIn(t, root, "cat "+target+"/seen; readlink "+target+" || true", mount); got != "given" {
			t.Errorf("%s: got %q", target, got)
		}
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) > 0 {
		t.Errorf("the folder outside has %v, %v", entries, err)
	}
	if err := os.Symlink("/usr", filepath.Join(root.Dir, "linked")); err != nil {
		t.Fatal(err)
	}
	_, err = sandboxtest.Bubblewrap(t).Run(t.Context(), sandbox.Spec{
		Argv: []string{"true"}, Root: &root, Mounts: []sandbox.Mount{system, {Source: given, Target: "/linked/x"}},
	})
	if !fault.Is(err, fault.Malformed) || !strings.Contains(err.Error(), "/linked") {
		t.Errorf("an image with a link at a mount point: %v", err)
	}
}

// rooted runs every program in a root of its own.
type rooted struct {
	sandbox.Sandbox
	t *testing.T
}

func (r rooted) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	root := sandboxtest.Root(r.t, nil)
	spec.Root, spec.Mounts = &root, append([]sandbox.Mount{system}, spec.Mounts...)
	return r.Sandbox.Run(ctx, spec)
}

// TestRootAttacks: a root gives a program no more than the machine's programs do.
func TestRootAttacks(t *testing.T) {
	sandboxtest.RunInRoot(t, rooted{sandboxtest.Bubblewrap(t), t})
}

func TestNoRoot(t *testing.T) {
	root := sandboxtest.Root(t, nil)
	if _, err := unsafe(t).Run(t.Context(), sandbox.Spec{Argv: []string{"true"}, Root: &root}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the driver none: %v", err)
	}
}
