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
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // what was written is renamed already
	return replaceFile(root, hookFile, raw, 0o600)
}

// replaceFile writes a file so that nobody sees half of it. A link in its place
// is replaced, too.
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

// before is what a user's own hook is called once ours runs it.
const before = "post-receive.before-whetstone"

// script is the hook. It runs the user's own hook first and hands both what
// git says on standard input. A failure is told to who pushes, and no more:
// the push is done, and the reconcile finds it.
func script(program, configPath string) string {
	return scriptBegin + quote(program) + ` repohost hook ` + quote(configPath) + scriptEnd
}

const (
	scriptBegin = `#!/bin/sh
# Installed by whetstone. It tells the service of every push.
refs=$(cat)
if [ -x hooks/` + before + ` ]; then
	printf '%s\n' "$refs" | hooks/` + before + ` "$@"
fi
printf '%s\n' "$refs" | `
	scriptEnd = ` || true
`
)

// scriptCommand is what stands between the two: nothing but our command, with
// two words as quote makes them.
var scriptCommand = regexp.MustCompile(`^'(?:[^'\n]|'\\'')*' repohost hook '(?:[^'\n]|'\\'')*'$`)

// IsOurHook reports whether a post-receive hook is the one that InstallHook
// writes, for whichever program and configuration, and does nothing else.
func IsOurHook(text []byte) bool {
	command, ok := strings.CutPrefix(string(text), scriptBegin)
	command, ended := strings.CutSuffix(command, scriptEnd)
	return ok && ended && scriptCommand.MatchString(command)
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
// that is not ours is the user's: it is kept and run first; one more of them is
// a Conflict. Nothing outside the repository is written, so a hooks folder that
// is a link is a Conflict, too.
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
		return fault.New(fault.Conflict, "The repository's hooks are not a folder of its own; put a folder in their place and try again").Because(err)
	}
	text, isFile, err := readHook(root)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && isFile && string(text) == script(program, configPath):
		return root.Chmod(postReceive, 0o700)
	case err == nil && !IsOurHook(text):
		if err := keepUserHook(root); err != nil {
			return err
		}
	}
	return replaceFile(root, postReceive, []byte(script(program, configPath)), 0o700)
}

const postReceive = "hooks/post-receive"

// readHook reads the hook of a repository, and tells whether it is a file and
// no link to one.
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

// settings is what Init writes into a repository's config.
const settings = "[core]\n\tbare = true\n"

// Adopt gives every repository below a folder the settings and the hook that
// Init and InstallHook do, for repositories that have none, as a restore leaves
// them.
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
		if err := adopt(root, inside, program, HookConfigPath(dir)); err != nil {
			return err
		}
	}
	return nil
}

func adopt(root *os.Root, inside, program, configPath string) error {
	repository, err := root.OpenRoot(inside) // not one that a link leads out to
	if err != nil {
		return err
	}
	defer func() { _ = repository.Close() }() // what was written is synced
	if err := replaceFile(repository, "config", []byte(settings), 0o600); err != nil {
		return err
	}
	return InstallHook(filepath.Join(root.Name(), inside), program, configPath)
}

// IsOurs reports whether a file of a repository, such as
// "acme/skill.git/hooks/post-receive", is as we or git itself wrote it, so that
// Adopt makes up for it.
func IsOurs(name string, content []byte) bool {
	file, hook := filepath.Base(name), filepath.Base(filepath.Dir(name)) == "hooks"
	switch {
	case hook && file == "post-receive":
		return IsOurHook(content)
	case file == "config":
		return string(content) == settings
	case strings.Contains(name, suffix+"/objects/info/"): // caches, and where else to look for objects
		return !strings.HasSuffix(file, "alternates")
	}
	return hook && strings.HasSuffix(file, ".sample") || file == "description" || strings.HasSuffix(name, suffix+"/info/exclude")
}

func keepUserHook(root *os.Root) error {
	kept := "hooks/" + before
	if _, err := root.Lstat(kept); err == nil {
		return fault.New(fault.Conflict, "The repository has a post-receive hook of its own, and another one in %s; merge the two and try again", before)
	}
	return root.Rename(postReceive, kept)
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
