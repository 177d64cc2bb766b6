package remote

import (
	"github.com/whetstone-dev/whetstone/internal/cli/folder"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
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
	folder.SkillsFlag `embed:""`
}

func (f folderFlag) path() (string, error) { return f.Path() }
