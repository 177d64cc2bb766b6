package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/files"
)

func TestSync(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := files.SyncDir(dir); err != nil {
		t.Errorf("SyncDir: %v", err)
	}
	if err := files.SyncRootDir(root, "."); err != nil {
		t.Errorf("SyncRootDir: %v", err)
	}
	if err := files.SyncDir(filepath.Join(dir, "missing")); !os.IsNotExist(err) {
		t.Errorf("a missing folder: got %v, want not exist", err)
	}
	if err := files.SyncRootDir(root, "missing"); !os.IsNotExist(err) {
		t.Errorf("a missing folder in root: got %v, want not exist", err)
	}
}
