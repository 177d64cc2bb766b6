package versions

import (
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// versionArgs are the arguments of the commands that change one version. Whether a
// reason is required depends on the command.
type versionArgs struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"entries" help:"Name or id of the entry."`
	Version      string `arg:"" help:"The version."`
	Reason       string `env:"-" help:"Reason, for the audit log."`
}

// A versionChange is a method of the client that changes the state of a version.
type versionChange = func(ctx context.Context, entryID, version, reason string) (client.Released, error)

// run changes the version's state with the method that do returns, and prints done,
// e.g. "withdrawn", and the text of next. Skills that require the entry are noted.
func (c *versionArgs) run(
	ctx context.Context, p *term.Program, done string, next func(client.Version) string, do func(s *server.Session) versionChange,
) error {
	return c.WithSession(p, func(s *server.Session) error {
		entry, err := s.OwnEntry(ctx, c.Name)
		if err != nil {
			return err
		}
		out, err := do(s)(ctx, entry.ID, c.Version, c.Reason)
		if err != nil {
			return err
		}
		// A withdrawn version may leave skills that require it without one.
		noteDependents(ctx, p, s, entry.ID)
		return p.Print(out, func(w io.Writer) {
			version, entry := term.Plain(out.Version.Version), term.Plain(out.Entry.Name)
			fmt.Fprintf(w, "Version %s of %s is %s; %s\n", version, entry, done, next(out.Version))
		})
	})
}

// askReason asks a person for the reason, which the server requires. Without a terminal
// the flag is required.
func (c *versionArgs) askReason(ctx context.Context, p *term.Program) error {
	if c.Reason == "" {
		c.Reason = p.Ask(ctx, "Reason, for the audit log:")
	}
	if c.Reason == "" {
		return fault.Invalid("reason", "say why with --reason")
	}
	return nil
}

// promoteCommand promotes a candidate.
type promoteCommand struct {
	versionArgs `embed:""`
}

// Run makes a candidate current without the verdict of its gate. It needs a reason,
// which goes to the audit log. Approvals that the policy demands are skipped, too,
// so the server wants a permission.
func (c *promoteCommand) Run(ctx context.Context, p *term.Program) error {
	if err := c.askReason(ctx, p); err != nil {
		return err
	}
	return c.run(ctx, p, "current", func(client.Version) string { return "installations follow with their next sync." },
		func(s *server.Session) versionChange { return s.Promote })
}

// withdrawCommand withdraws a version.
type withdrawCommand struct {
	versionArgs `embed:""`
	Undo        bool `env:"-" help:"Restore a withdrawn version."`
}

// Run withdraws a version so that it is not installed any more, or with --undo restores
// it. A restored version is not made current: the output names the command that
// does. Withdrawing needs a reason, which an attempt to install the version shows.
func (c *withdrawCommand) Run(ctx context.Context, p *term.Program) error {
	if c.Undo {
		return c.run(ctx, p, "no longer withdrawn", func(v client.Version) string {
			command := "rollback"
			if v.State == "candidate" {
				command = "promote"
			}
			return fmt.Sprintf("`whetstone %s %s %s` makes it current.", command, c.Name, term.Plain(v.Version))
		}, func(s *server.Session) versionChange { return s.Restore })
	}
	if err := c.askReason(ctx, p); err != nil {
		return err
	}
	return c.run(ctx, p, "withdrawn", func(client.Version) string { return "--undo restores it." },
		func(s *server.Session) versionChange { return s.Withdraw })
}
