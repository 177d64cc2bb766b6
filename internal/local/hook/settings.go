// Package hook makes agents report their sessions by themselves. It adds a command
// to the settings of an agent, and removes it again; the agent calls the command
// whenever a turn or a session ends, and the command queues the session's
// transcript, to be sent in the background.
package hook

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// The agents.
const (
	ClaudeCode = "claude-code"
	Codex      = "codex"
)

// The scopes of settings: those of all projects of a user, or of one project.
const (
	User    = "user"
	Project = "project"
)

// Settings are a file that an agent reads its settings from.
type Settings struct {
	Path   string
	format format
}

// A format edits the content of a settings file, and leaves everything else in it
// as it is. The content of a missing file is empty. add and remove return a new slice or the
// content itself, never a changed one.
type format interface {
	// installed returns the command of the hook, "" if there is none.
	installed(content []byte) (string, error)
	// add returns the content with the hook, which it does not have yet.
	add(content []byte, program string, flags []string) ([]byte, error)
	// remove returns the content without the hook.
	remove(content []byte) ([]byte, error)
	// equal compares what two contents mean.
	equal(a, b []byte) bool
}

// SettingsOf returns the settings of an agent.
func SettingsOf(agent, scope string) (Settings, error) {
	switch {
	case agent == ClaudeCode && scope == Project:
		return Settings{filepath.Join(".claude", "settings.json"), claudeSettings{}}, nil
	case agent == ClaudeCode:
		dir, err := homeOf("CLAUDE_CONFIG_DIR", ".claude")
		return Settings{filepath.Join(dir, "settings.json"), claudeSettings{}}, err
	case scope == Project:
		return Settings{}, fault.Invalid("scope", "scope must be user: Codex takes no hooks from the settings of a project")
	}
	dir, err := homeOf("CODEX_HOME", ".codex")
	return Settings{filepath.Join(dir, "config.toml"), codexSettings{}}, err
}

// homeOf returns the folder of an agent, which an environment variable overrides.
func homeOf(variable, name string) (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "There is no home folder: %s", err)
	}
	return filepath.Join(home, name), nil
}

// Installed returns the command of the hook, "" if it is not installed.
func (s Settings) Installed() (string, error) {
	content, err := s.read()
	if err != nil {
		return "", err
	}
	return s.format.installed(content)
}

// Install adds a hook that calls the program with flags. A hook that is there is
// replaced. The content without it is kept beside the file, see Backup. Installing the same
// again writes nothing, so scripts may do so.
func (s Settings) Install(program string, flags []string) (err error) {
	defer fault.Wrap(&err, "install the hook")
	if s.Path, err = resolve(s.Path); err != nil {
		return err
	}
	content, err := s.read()
	if err != nil {
		return err
	}
	without, err := s.format.remove(content)
	if err != nil {
		return err
	}
	with, err := s.format.add(without, program, flags)
	if err != nil || s.format.equal(with, content) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o700); err != nil {
		return err
	}
	if len(content) > 0 && !s.inBackup(without) {
		if err := s.replace(s.Backup(), without); err != nil {
			return err
		}
	}
	return s.replace(s.Path, with)
}

// Uninstall removes the hook, and reports whether there was one. A file that
// nothing else was changed in becomes what it was before Install. If the user has edited the
// file since, only the hook is taken out, and the edits stay.
func (s Settings) Uninstall() (removed bool, err error) {
	defer fault.Wrap(&err, "remove the hook")
	if s.Path, err = resolve(s.Path); err != nil {
		return false, err
	}
	content, err := s.read()
	if err != nil {
		return false, err
	}
	without, err := s.format.remove(content)
	if err != nil || bytes.Equal(without, content) {
		return false, err
	}
	backup, err := os.ReadFile(s.Backup())
	switch {
	case err == nil && s.format.equal(backup, without):
		without = backup
	case errors.Is(err, fs.ErrNotExist) && s.format.equal(nil, without):
		return true, os.Remove(s.Path) // Install created it
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if err := s.replace(s.Path, without); err != nil {
		return false, err
	}
	if err := os.Remove(s.Backup()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, err
	}
	return true, nil
}

// Backup is the file that keeps the settings without the hook.
func (s Settings) Backup() string { return s.Path + ".whetstone-backup" }

// inBackup reports whether the backup has these settings already, perhaps in
// another layout, which is the one to return to. Otherwise a second Install would replace the
// user's layout in the backup by ours.
func (s Settings) inBackup(content []byte) bool {
	backup, err := os.ReadFile(s.Backup())
	return err == nil && s.format.equal(backup, content)
}

// read returns the content, which is empty if there is no file.
func (s Settings) read() ([]byte, error) {
	content, err := os.ReadFile(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// replace writes a file with the permissions of the settings. A new file is private, since
// settings may have keys.
func (s Settings) replace(path string, content []byte) error {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(s.Path); err == nil {
		mode = info.Mode().Perm()
	}
	return install.ReplaceFile(path, content, mode)
}

// resolve follows symbolic links: settings are often links to a repository of
// them, and replacing the link would cut the file off from it.
func resolve(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return target, err
}

// broken is the error of settings that cannot be edited.
func broken(what string, line int) error {
	return fault.New(fault.Malformed, "Line %d of the settings: %s; nothing was changed", line, what)
}

// lineAt returns the number of the line with an offset.
func lineAt(content []byte, offset int) int {
	return bytes.Count(content[:min(offset, len(content))], []byte("\n")) + 1
}
