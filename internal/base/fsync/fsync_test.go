package fsync_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fsync"
)

func TestDir(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := fsync.Dir(dir); err != nil {
		t.Errorf("Dir: %v", err)
	}
	if err := fsync.RootDir(root, "."); err != nil {
		t.Errorf("RootDir: %v", err)
	}
	if err := fsync.Dir(filepath.Join(dir, "missing")); !os.IsNotExist(err) {
		t.Errorf("a missing folder: got %v, want not exist", err)
	}
	if err := fsync.RootDir(root, "missing"); !os.IsNotExist(err) {
		t.Errorf("a missing folder in root: got %v, want not exist", err)
	}
}
