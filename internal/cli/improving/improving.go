// Package improving has the client's commands by which skills become better: improve
// runs, and the proposals that come of them and of signals.
package improving

import (
	"github.com/whetstone-dev/whetstone/client/improving"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
)

// Commands are the commands of this package.
type Commands struct {
	Proposal proposalCommands `cmd:"" group:"Client" help:"Show, approve, reject and apply proposed changes to skills."`
}

func clientOf(s *server.Session) improving.Client { return improving.Client{Client: s.Client} }
