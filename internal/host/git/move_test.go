package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/fault"
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

// TestHookIsOurs runs as our own only what does nothing else, and writes
// nothing outside the repository.
func TestHookIsOurs(t *testing.T) {
	dir := t.TempDir()
	repository, err := git.Init(dir, "acme/skill")
	if err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(repository, "hooks", "post-receive")
	install := func() error { return git.InstallHook(repository, "/it's whetstone", "/hook.json") }
	if err := install(); err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile(hook)
	if err != nil || !git.IsOurHook(ours) {
		t.Fatalf("our hook is not ours: %s, %v", ours, err)
	}
	command := "'/it'\\''s whetstone' repohost hook '/hook.json'"
	for name, text := range map[string]string{
		"a line more":      string(ours) + "touch /tmp/x\n",
		"a line before":    strings.Replace(string(ours), "refs=$(cat)\n", "touch /tmp/x\nrefs=$(cat)\n", 1),
		"a command more":   strings.Replace(string(ours), command, command+"; touch /tmp/x", 1),
		"not our command":  strings.Replace(string(ours), " repohost hook ", " serve ", 1),
		"an open quote":    strings.Replace(string(ours), command, "'/x' repohost hook '/y'$(touch /tmp/x)''", 1),
		"the comment only": "#!/bin/sh\n# Installed by whetstone. It tells the service of every push.\ntouch /tmp/x\n",
	} {
		if text == string(ours) || git.IsOurHook([]byte(text)) {
			t.Errorf("%s: %s is taken for ours", name, text)
		}
	}

	altered := string(ours) + "touch /tmp/x\n"
	if err := os.WriteFile(hook, []byte(altered), 0o700); err != nil { //nolint:gosec // it must run
		t.Fatal(err)
	}
	if err := git.MoveHooks(dir, "/new/whetstone"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(hook); err != nil || string(text) != altered {
		t.Errorf("a user's hook was moved: %s, %v", text, err)
	}
	if err := install(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(repository, "hooks", "post-receive.before-whetstone")); err != nil || string(text) != altered {
		t.Errorf("what the user added is gone: %s, %v", text, err)
	}

	elsewhere := t.TempDir()
	if err := os.RemoveAll(filepath.Join(repository, "hooks")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(repository, "hooks")); err != nil {
		t.Fatal(err)
	}
	if err := install(); !fault.Is(err, fault.Conflict) {
		t.Errorf("a hooks folder elsewhere: got %v, want Conflict", err)
	}
	if found, err := os.ReadDir(elsewhere); err != nil || len(found) != 0 {
		t.Errorf("%d files were written elsewhere, %v", len(found), err)
	}
}
