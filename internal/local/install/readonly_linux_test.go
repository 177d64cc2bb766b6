package install_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/local/install"
)

const nobody = 65534

// asNobody runs a function with a folder of its own on a thread to which
// permissions mean something, also where root runs the tests.
func asNobody(t *testing.T, do func(dir string)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "nobodys")
	mkdir(t, dir)
	root := os.Geteuid() == 0
	if root {
		chmod(t, filepath.Dir(dir), 0o755)
		chmod(t, filepath.Dir(filepath.Dir(dir)), 0o755)
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if root {
			runtime.LockOSThread() // and never unlock: the thread ends with the function
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
		}
		do(dir)
	}()
	<-done
}

func TestReadOnly(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, dir string)
	}{
		{"folder of the old version", func(t *testing.T, dir string) {
			f := open(t, dir)
			put(t, f, first, "1.0.0", false)
			chmod(t, dir+"/pdf/docs", 0o555)
			put(t, f, second, "2.0.0", false)
			wantTree(t, dir+"/pdf", second)
			wantTidy(t, dir)
		}},
		{"skill", func(t *testing.T, dir string) {
			f := open(t, dir)
			put(t, f, first, "1.0.0", false)
			chmod(t, dir+"/pdf", 0o555)
			if _, err := f.Install(t.Context(), "pdf", pack(t, second), record("2.0.0"), false); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("got %v, want that it is not permitted", err)
			}
			wantTree(t, dir+"/pdf", first)
			wantTidy(t, dir)
		}},
		{"skills folder", func(t *testing.T, dir string) {
			chmod(t, dir, 0o555)
			if _, err := install.Open(t.Context(), dir, func() {}); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("got %v, want that it is not permitted", err)
			}
			if s, err := install.Inspect(dir, "pdf", install.Record{}); err != nil || s.Condition != install.Missing {
				t.Errorf("state %+v, %v; want to be able to look", s, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) { asNobody(t, func(dir string) { c.test(t, dir) }) })
	}
}
