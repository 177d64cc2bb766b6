package remote

import (
	"os"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// serverFlags are the flags of every command that talks to a server.
type serverFlags struct {
	server.Flags `embed:""`
}

// A session is a connection to a server.
type session struct{ *server.Session }

// withSession calls do with a session that has a key.
func (f *serverFlags) withSession(p *term.Program, do func(s *session) error) error {
	return f.WithSession(p, func(s *server.Session) error { return do(&session{s}) })
}

// folderFlag is the folder that skills are installed in.
type folderFlag struct {
	Dir string `env:"-" placeholder:"DIR" help:"Folder of the skills; by default .claude/skills if the current folder has a .claude, else ~/.claude/skills."`
}

// path returns the folder as an absolute path, since it is recorded on the server
// and distinguishes the installations of one entry on one machine.
func (f folderFlag) path() (string, error) {
	if f.Dir != "" {
		return filepath.Abs(f.Dir)
	}
	if info, err := os.Stat(".claude"); err == nil && info.IsDir() {
		return filepath.Abs(filepath.Join(".claude", "skills"))
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault.Invalid("dir", "dir must be given: %s", err)
	}
	return filepath.Join(home, ".claude", "skills"), nil
}
