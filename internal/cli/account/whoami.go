package account

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// whoamiCommand shows which login the other commands use.
type whoamiCommand struct {
	server.Flags `embed:""`
}

// whoamiOutput is the caller as --json prints it.
type whoamiOutput struct {
	Server string `json:"server"`
	client.Me
}

// Run asks the server for the caller. It is also the cheapest test of a key.
func (c *whoamiCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		me, err := s.Me(ctx)
		if err != nil {
			return err
		}
		return p.Print(whoamiOutput{s.Server, me}, func(w io.Writer) {
			fmt.Fprintf(w, "Server\t%s\n", s.Server)
			fmt.Fprintf(w, "User\t%s (%s)\n", term.Plain(me.User.Name), term.Plain(me.User.Email))
			fmt.Fprintf(w, "Organisation\t%s, plan %s\n", term.Plain(me.Organisation.Name), me.Plan)
			fmt.Fprintf(w, "Role\t%s\n", me.Role)
			fmt.Fprintf(w, "Permissions\t%s\n", strings.Join(me.Permissions, ", "))
		})
	})
}
