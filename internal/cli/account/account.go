// Package account has the commands that the help lists under Account and organisation: the
// login, the people and machines of an organisation, their tokens, and its settings.
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

// Commands are the commands of this package, in the order of the help.
type Commands struct {
	Login            loginCommand         `cmd:"" help:"Log in to a server."`
	Logout           logoutCommand        `cmd:"" help:"Delete the stored login of a server."`
	Whoami           whoamiCommand        `cmd:"" help:"Show the server, and whom the key belongs to."`
	Member           memberCommands       `cmd:"" help:"Invite people, list members, change roles, remove members."`
	Team             teamCommands         `cmd:"" help:"Create teams, and change their members."`
	Owners           ownersCommand        `cmd:"" help:"Show or set who owns a skill."`
	ServiceAccount   accountCommands      `cmd:"" help:"Create, list and delete service accounts, and their keys."`
	KeyPolicy        policyCommands       `cmd:"" help:"Show or set the policy for new API keys."`
	CatalogToken     catalogTokenCommands `cmd:"" help:"Create, list, rotate and delete the tokens that installers have in addresses."`
	TrustedPublisher publisherCommands    `cmd:"" help:"Let workflows of a code host publish an entry without a stored key."`
	Webhook          webhookCommands      `cmd:"" help:"Send events to other systems."`
	Settings         settingsCommands     `cmd:"" help:"Show and change settings of the organisation."`
	Audit            auditCommand         `cmd:"" help:"Show the audit log: who changed what in the organisation."`
	Organization     organizationCommands `cmd:"" help:"Export or delete your organisation."`
}

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
