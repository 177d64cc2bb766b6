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

// versionArgs name a version, and say why it changes.
type versionArgs struct {
	server.Flags `embed:""`
	Name         string `arg:"" help:"Name or id of the entry."`
	Version      string `arg:"" help:"The version."`
	Reason       string `env:"-" help:"Reason, for the audit log."`
}

// A versionChange is a call that changes the state of a version.
type versionChange = func(ctx context.Context, entryID, version, reason string) (client.Released, error)

// run changes the version's state, and prints what was done and then what to do next.
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
		noteDependents(ctx, p, s, entry.ID)
		return p.Print(out, func(w io.Writer) {
			version, entry := term.Plain(out.Version.Version), term.Plain(out.Entry.Name)
			fmt.Fprintf(w, "Version %s of %s is %s; %s\n", version, entry, done, next(out.Version))
		})
	})
}

// askReason asks a person for the reason that the server demands.
func (c *versionArgs) askReason(ctx context.Context, p *term.Program) error {
	if c.Reason == "" {
		c.Reason = p.Ask(ctx, "Reason, for the audit log:")
	}
	if c.Reason == "" {
		return fault.Invalid("reason", "say why with --reason")
	}
	return nil
}

type promoteCommand struct {
	versionArgs `embed:""`
}

// Run makes a candidate current.
func (c *promoteCommand) Run(ctx context.Context, p *term.Program) error {
	if err := c.askReason(ctx, p); err != nil {
		return err
	}
	return c.run(ctx, p, "current", func(client.Version) string { return "installations follow with their next sync." },
		func(s *server.Session) versionChange { return s.Promote })
}

type withdrawCommand struct {
	versionArgs `embed:""`
	Undo        bool `env:"-" help:"Restore a withdrawn version."`
}

// Run withdraws a version, or restores it.
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
