package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	if _, err := f.Remove("pdf", true); !fault.Is(err, fault.NotFound) {
		t.Errorf("what is not installed: %v", err)
	}
	put(t, f, first, "1.0.0", false)
	if backup, err := f.Remove("pdf", false); err != nil || backup != "" {
		t.Errorf("backup %q, %v", backup, err)
	}
	gone := func() {
		t.Helper()
		if _, err := os.Stat(filepath.Join(dir, "pdf")); err == nil || len(f.Skills()) > 0 {
			t.Errorf("left: %v, %v", err, f.Skills())
		}
		if lock, err := install.ReadLock(dir); err != nil || len(lock) > 0 {
			t.Errorf("lock file %v, %v", lock, err)
		}
		wantTidy(t, dir)
	}
	gone()

	put(t, f, first, "1.0.0", false)
	write(t, filepath.Join(dir, "pdf", "SKILL.md"), "mine")
	if _, err := f.Remove("pdf", false); !edited(err) || len(f.Skills()) != 1 {
		t.Errorf("edited: %v", err)
	}
	backup, err := f.Remove("pdf", true)
	if kept, _ := os.ReadFile(filepath.Join(backup, "SKILL.md")); err != nil || string(kept) != "mine" {
		t.Errorf("the copy is %q, %v", kept, err)
	}
	gone()

	put(t, f, first, "1.0.0", false)
	write(t, filepath.Join(dir, "pdf", ".env"), "secret")
	backup, err = f.Remove("pdf", false)
	if kept, _ := os.ReadFile(filepath.Join(backup, ".env")); err != nil || string(kept) != "secret" {
		t.Errorf("the user's file is %q, %v", kept, err)
	}
	gone()

	put(t, f, first, "1.0.0", false)
	if err := os.RemoveAll(filepath.Join(dir, "pdf")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Remove("pdf", false); !edited(err) && err != nil {
		t.Errorf("a folder that is gone: %v", err)
	}
	gone()
}

func edited(err error) bool {
	_, ok := errors.AsType[*install.EditedError](err)
	return ok
}

// TestRemoveCrash stops before every step: nothing is lost, and the skill can be
// removed again.
func TestRemoveCrash(t *testing.T) {
	for _, step := range []string{"move away", "lock file", "dispose"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir)
			put(t, f, first, "1.0.0", false)
			f.Before(func(name string) {
				if name == step {
					panic(step)
				}
			})
			func() {
				defer func() {
					if recover() != step {
						t.Errorf("there is no step %s", step)
					}
				}()
				_, _ = f.Remove("pdf", false)
			}()
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			again := open(t, dir)
			wantTidy(t, dir)
			if _, known := again.Skills()["pdf"]; known != (step != "dispose") {
				t.Errorf("in the lock file: %v", known)
			}
			if _, err := again.Remove("pdf", false); err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("again: %v", err)
			}
		})
	}
}
