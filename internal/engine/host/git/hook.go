package git

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// HookConfig is the configuration of the hooks of a folder. It is in a file that
// only its owner can read; the hooks themselves do not contain the secret.
type HookConfig struct {
	URL    string `json:"url"`
	Secret string `json:"secret"`
}

// hookFile is next to the owners' folders.
const hookFile = "hook.json"

// HookConfigPath is the path of the configuration of the hooks of a folder.
func HookConfigPath(dir string) string { return filepath.Join(dir, hookFile) }

// ReadHookConfig reads the configuration that New wrote.
func ReadHookConfig(path string) (c HookConfig, err error) {
	raw, err := os.ReadFile(path) // the operator's own file
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
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // what was written is renamed already
	return replaceFile(root, hookFile, raw, 0o600)
}

// replaceFile writes a file atomically. A symbolic link in its place is replaced,
// too.
func replaceFile(root *os.Root, name string, content []byte, mode fs.FileMode) error {
	temp := filepath.Join(filepath.Dir(name), ".whetstone-"+rand.Text())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { _ = root.Remove(temp) }() // gone when all went well
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return root.Rename(temp, name)
}

// userHookName is the name of a user's own hook once ours runs it.
const userHookName = "post-receive.before-whetstone"

// script is the hook. It runs the user's own hook first, and gives both the
// standard input that git sends. Its failure is only shown to the user who
// pushes: the push has happened, and the next reconcile finds it.
func script(program, configPath string) string {
	return scriptBegin + shellQuote(program) + ` repohost hook ` + shellQuote(configPath) + scriptEnd
}

const (
	scriptBegin = `#!/bin/sh
# Installed by whetstone. It tells the service of every push.
refs=$(cat)
if [ -x hooks/` + userHookName + ` ]; then
	printf '%s\n' "$refs" | hooks/` + userHookName + ` "$@"
fi
printf '%s\n' "$refs" | `
	scriptEnd = ` || true
`
)

// scriptCommand matches what is between scriptBegin and scriptEnd: only our
// command, with two arguments as shellQuote writes them.
var scriptCommand = regexp.MustCompile(`^'(?:[^'\n]|'\\'')*' repohost hook '(?:[^'\n]|'\\'')*'$`)

// IsOurHook reports whether a post-receive hook is one that InstallHook wrote,
// for any program and configuration, and does nothing else.
func IsOurHook(text []byte) bool {
	command, ok := strings.CutPrefix(string(text), scriptBegin)
	command, ended := strings.CutSuffix(command, scriptEnd)
	return ok && ended && scriptCommand.MatchString(command)
}

// shellQuote quotes a path for the shell.
func shellQuote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// Prepare implements host.Host: it installs the post-receive hook.
func (h *Host) Prepare(_ context.Context, r host.Repo) (err error) {
	defer fault.Wrap(&err, "hook of %s", r.FullName)
	path, err := h.path(r)
	if err != nil {
		return err
	}
	return InstallHook(path, h.program, HookConfigPath(h.dir))
}

// InstallHook installs a post-receive hook that runs our program. A hook of the
// user's own is renamed and run first; a second one is a Conflict. Nothing
// outside the repository is written, so a hooks folder that is a symbolic link is
// a Conflict, too.
func InstallHook(repository, program, configPath string) error {
	root, err := os.OpenRoot(repository)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // what was written is renamed already
	if err := root.Mkdir("hooks", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := root.Lstat("hooks"); err != nil || !info.IsDir() {
		return fault.New(fault.Conflict,
			"The repository's hooks are not a folder of its own; put a folder in their place and try again").Because(err)
	}
	text, isFile, err := readHook(root)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && isFile && string(text) == script(program, configPath):
		return root.Chmod(postReceive, 0o700)
	case err == nil && !IsOurHook(text):
		const kept = "hooks/" + userHookName
		if _, err := root.Lstat(kept); err == nil {
			return fault.New(fault.Conflict,
				"The repository has a post-receive hook of its own, and another one in %s; merge the two and try again",
				userHookName)
		}
		if err := root.Rename(postReceive, kept); err != nil {
			return err
		}
	}
	return replaceFile(root, postReceive, []byte(script(program, configPath)), 0o700)
}

const postReceive = "hooks/post-receive"

// readHook reads the hook of a repository, and reports whether it is a regular
// file.
func readHook(root *os.Root) (text []byte, isFile bool, err error) {
	info, err := root.Lstat(postReceive)
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, nil
	}
	text, err = root.ReadFile(postReceive)
	return text, true, err
}

// bareConfig is the config file that Init writes into a repository.
const bareConfig = "[core]\n\tbare = true\n"

// Adopt gives every repository below a folder the config of Init and the hook of
// InstallHook. A restore needs it: a backup contains neither.
func Adopt(dir, program string) (err error) {
	defer fault.Wrap(&err, "hooks")
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	repositories, err := fs.Glob(root.FS(), "*/*"+suffix)
	if err != nil {
		return err
	}
	for _, inside := range repositories {
		repository, err := root.OpenRoot(inside) // fails for a link out of the folder
		if err != nil {
			return err
		}
		err = replaceFile(repository, "config", []byte(bareConfig), 0o600)
		_ = repository.Close() // the file is renamed already
		if err != nil {
			return err
		}
		if err := InstallHook(filepath.Join(dir, inside), program, HookConfigPath(dir)); err != nil {
			return err
		}
	}
	return nil
}

// IsOurs reports whether a file of a repository, e.g.
// "acme/skill.git/hooks/post-receive", is as we or git itself wrote it, so that
// a backup can omit it: Adopt restores it.
func IsOurs(name string, content []byte) bool {
	file, hook := filepath.Base(name), filepath.Base(filepath.Dir(name)) == "hooks"
	switch {
	case hook && file == "post-receive":
		return IsOurHook(content)
	case file == "config":
		return string(content) == bareConfig
	case strings.Contains(name, suffix+"/objects/info/"): // caches, and links to other object stores
		return !strings.HasSuffix(file, "alternates")
	}
	return hook && strings.HasSuffix(file, ".sample") || file == "description" ||
		strings.HasSuffix(name, suffix+"/info/exclude")
}

// HookPush builds a hook's delivery from the lines of its input, "BEFORE AFTER
// REF". The name of the repository follows from its path.
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
