package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
)

// TestAdopt gives a repository the settings and the hook that one of ours has.
func TestAdopt(t *testing.T) {
	dir := t.TempDir()
	made, err := git.Init(dir, "acme/made")
	if err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(dir, "acme", "bare.git")
	if err := os.Mkdir(bare, 0o700); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(made, "config"))
	if err != nil {
		t.Fatal(err)
	}
	if err := git.Adopt(dir, "/new/whetstone"); err != nil {
		t.Fatal(err)
	}
	for _, repository := range []string{made, bare} {
		if got, err := os.ReadFile(filepath.Join(repository, "config")); err != nil || string(got) != string(want) ||
			!git.IsOurs("acme/x.git/config", got) {
			t.Errorf("the config is %q, %v; want %q", got, err, want)
		}
		text, err := os.ReadFile(filepath.Join(repository, "hooks", "post-receive"))
		if err != nil ||
			!strings.Contains(string(text), "'/new/whetstone' repohost hook '"+git.HookConfigPath(dir)+"'") || !git.IsOurs("acme/x.git/hooks/post-receive", text) {
			t.Errorf("the hook is %s, %v", text, err)
		}
	}
	for _, name := range []string{"hooks/update", "hooks/post-receive", "config", "commondir"} {
		if git.IsOurs("acme/x.git/"+name, []byte("#!/bin/sh\n")) {
			t.Errorf("%s of somebody is taken for ours", name)
		}
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
	if err := os.WriteFile(hook, []byte(altered), 0o700); err != nil { // it must run
		t.Fatal(err)
	}
	if err := install(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(repository, "hooks", "post-receive.before-whetstone")); err != nil ||
		string(text) != altered {
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
