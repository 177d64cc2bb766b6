package git

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
)

// HookConfig is what the hooks of a folder need to reach the service. It
// stands in a file that only its owner can read; no hook holds the secret.
type HookConfig struct {
	URL    string `json:"url"`
	Secret string `json:"secret"`
}

// hookFile lies beside the owners' folders. Its name is no owner's.
const hookFile = "hook.json"

// HookConfigPath is where the hooks of a folder find their configuration.
func HookConfigPath(dir string) string { return filepath.Join(dir, hookFile) }

// ReadHookConfig reads what New wrote.
func ReadHookConfig(path string) (c HookConfig, err error) {
	raw, err := os.ReadFile(path) //nolint:gosec // the operator's own file
	if errors.Is(err, fs.ErrNotExist) {
		return c, fault.New(fault.NotFound, "%s is missing; start the server once, it writes the file", path)
	}
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(raw, &c)
}

func writeHookConfig(dir string, c HookConfig) (err error) {
	defer fault.Wrap(&err, "hook configuration")
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return replaceFile(HookConfigPath(dir), raw, 0o600)
}

// replaceFile writes a file so that nobody sees half of it.
func replaceFile(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".whetstone-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone when all went well
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// marker tells our own hook from a user's.
const marker = "# Installed by whetstone."

// before is what a user's own hook is called once ours runs it.
const before = "post-receive.before-whetstone"

// script is the hook. It runs the user's own hook first and hands both what
// git says on standard input. A failure is told to who pushes, and no more:
// the push is done, and the reconcile finds it.
func script(program, configPath string) string {
	return `#!/bin/sh
` + marker + ` It tells the service of every push.
refs=$(cat)
if [ -x hooks/` + before + ` ]; then
	printf '%s\n' "$refs" | hooks/` + before + ` "$@"
fi
printf '%s\n' "$refs" | ` + quote(program) + ` repohost hook ` + quote(configPath) + ` || true
`
}

// quote makes one word of a path for the shell.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// Prepare implements host.Host: it installs the post-receive hook.
func (h *Host) Prepare(_ context.Context, r host.Repo) (err error) {
	defer fault.Wrap(&err, "hook of %s", r.FullName)
	path, err := h.path(r)
	if err != nil {
		return err
	}
	return InstallHook(path, h.program, HookConfigPath(h.dir))
}

// InstallHook makes a repository's post-receive hook run our program. A hook
// of the user is kept and run first; one more of them is a Conflict.
func InstallHook(repository, program, configPath string) error {
	hooks := filepath.Join(repository, "hooks")
	if err := os.MkdirAll(hooks, 0o700); err != nil {
		return err
	}
	hook := filepath.Join(hooks, "post-receive")
	text, err := os.ReadFile(hook) //nolint:gosec // below the operator's folder
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case string(text) == script(program, configPath):
		return nil
	case !strings.Contains(string(text), marker):
		if err := keepUserHook(hooks); err != nil {
			return err
		}
	}
	return replaceFile(hook, []byte(script(program, configPath)), 0o700)
}

// MoveHooks makes the hooks that were installed in another place, as those of
// a backup were, run this program and find the configuration of this folder.
func MoveHooks(dir, program string) (err error) {
	defer fault.Wrap(&err, "move hooks")
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	hooks, err := filepath.Glob(filepath.Join(dir, "*", "*"+suffix, "hooks", "post-receive"))
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		text, err := os.ReadFile(hook) //nolint:gosec // below the operator's folder
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), marker) {
			continue
		}
		if err := InstallHook(filepath.Dir(filepath.Dir(hook)), program, HookConfigPath(dir)); err != nil {
			return err
		}
	}
	return nil
}

func keepUserHook(hooks string) error {
	kept := filepath.Join(hooks, before)
	if _, err := os.Lstat(kept); err == nil {
		return fault.New(fault.Conflict, "The repository has a post-receive hook of its own, and another one in %s; merge the two and try again", before)
	}
	return os.Rename(filepath.Join(hooks, "post-receive"), kept)
}

// HookPush builds what a hook sends of the lines that git hands to it:
// "BEFORE AFTER REF". The repository is known by where it lies.
func HookPush(configPath, repository, lines string) (p host.HookPush, err error) {
	p.Repository.FullName, err = fullNameOf(filepath.Dir(configPath), repository)
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(lines) {
		if f := strings.Fields(line); len(f) == 3 {
			p.Refs = append(p.Refs, host.HookRef{Before: f[0], After: f[1], Ref: f[2]})
		}
	}
	return p, nil
}

func fullNameOf(dir, repository string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	repository, err = filepath.EvalSymlinks(repository)
	if err != nil {
		return "", err
	}
	inside, err := filepath.Rel(dir, repository)
	if err != nil {
		return "", err
	}
	fullName, ok := strings.CutSuffix(filepath.ToSlash(inside), suffix)
	if !ok || host.CheckFullName(fullName) != nil {
		return "", fault.New(fault.Malformed, "%s is not OWNER/NAME.git below %s", repository, dir)
	}
	return fullName, nil
}
