package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/host/git"
)

// TestMoveHooks moves what we installed and leaves a user's own hook alone.
func TestMoveHooks(t *testing.T) {
	dir := t.TempDir()
	ours, err := git.Init(dir, "acme/ours")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := git.Init(dir, "acme/theirs")
	if err != nil {
		t.Fatal(err)
	}
	if err := git.InstallHook(ours, "/old/whetstone", "/old/hook.json"); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(theirs, "hooks", "post-receive")
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := git.MoveHooks(dir, "/new/whetstone"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(ours, "hooks", "post-receive"))
	if err != nil || strings.Contains(string(text), "/old/") || !strings.Contains(string(text), "'/new/whetstone' repohost hook '"+git.HookConfigPath(dir)+"'") {
		t.Errorf("our hook is %s, %v", text, err)
	}
	if text, err := os.ReadFile(own); err != nil || string(text) != "#!/bin/sh\n" {
		t.Errorf("the user's hook is %q, %v", text, err)
	}
}
