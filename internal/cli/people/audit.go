package people

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// An AuditCommand lists who changed what.
type AuditCommand struct {
	server.Flags `embed:""`
	Actor        string `env:"-" placeholder:"WHO" help:"Only by this actor: id of a user or key, email address, or user, key, system or command."`
	Action       string `env:"-" placeholder:"PREFIX" help:"Only actions that begin with this, e.g. registry."`
	Target       string `env:"-" placeholder:"WHAT" help:"Only about the target with this id or name."`
	Since        string `env:"-" placeholder:"TIME" help:"Only at or after this time (RFC 3339) or day."`
	Until        string `env:"-" placeholder:"TIME" help:"Only before this time or day."`
	Limit        int    `env:"-" default:"50" placeholder:"N" help:"How many entries, newest first; 0 for all."`
}

// Run lists the audit log, newest first.
func (c *AuditCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		entries, err := s.Audit(ctx, client.AuditFilter{
			Actor: c.Actor, Action: c.Action, Target: c.Target, Since: c.Since, Until: c.Until, Limit: c.Limit,
		})
		if err != nil {
			return err
		}
		return p.Print(entries, func(w io.Writer) {
			if len(entries) == 0 {
				fmt.Fprintln(w, "No entries.")
				return
			}
			fmt.Fprintln(w, "TIME\tWHO\tVIA\tACTION\tTARGET\tDETAIL")
			for _, e := range entries {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.At.Local().Format("2006-01-02 15:04:05"),
					term.Plain(cmp.Or(e.Actor.Name, e.Actor.Kind)), e.Via, e.Action,
					term.Plain(e.Target.Kind+" "+cmp.Or(e.Target.Name, e.Target.ID)), term.Plain(string(e.Detail)))
			}
		})
	})
}
