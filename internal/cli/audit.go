package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/config"
)

type auditCommand struct {
	remote `embed:""`
	Actor  string `env:"-" placeholder:"WHO" help:"Only of a user or key by id, a person by address, or user, key, system or command."`
	Action string `env:"-" placeholder:"PREFIX" help:"Only actions that begin with this, like registry."`
	Target string `env:"-" placeholder:"WHAT" help:"Only of a target with this id or name."`
	Since  string `env:"-" placeholder:"TIME" help:"Only from this time (RFC 3339) or day on."`
	Until  string `env:"-" placeholder:"TIME" help:"Only before this time or day."`
	Limit  int    `env:"-" default:"50" placeholder:"N" help:"The newest so many; 0 for all."`
}

// Run lists who changed what, newest first.
func (c *auditCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		entries, err := s.Audit(ctx, client.AuditFilter{
			Actor: c.Actor, Action: c.Action, Target: c.Target, Since: c.Since, Until: c.Until, Limit: c.Limit,
		})
		if err != nil {
			return err
		}
		return p.print(entries, func(w io.Writer) { printAudit(w, entries) })
	})
}

func printAudit(w io.Writer, entries []client.AuditEntry) {
	if len(entries) == 0 {
		fmt.Fprintln(w, "No entries.")
		return
	}
	fmt.Fprintln(w, "TIME\tWHO\tVIA\tACTION\tTARGET\tDETAIL")
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.At.Local().Format("2006-01-02 15:04:05"), plain(cmp.Or(e.Actor.Name, e.Actor.Kind)),
			e.Via, e.Action, plain(e.Target.Kind+" "+cmp.Or(e.Target.Name, e.Target.ID)), plain(string(e.Detail)))
	}
}

type rekeyCommand struct {
	config.Database `embed:""`
	SecretKey       config.Secret `placeholder:"KEY,..." help:"The keys: the first seals, all open; secret.key in --data when empty."`
}

// Run seals all secrets of the database with the first key.
func (c *rekeyCommand) Run(ctx context.Context, p *Program) error {
	count, err := app.Rekey(ctx, c.Database, c.SecretKey)
	if err != nil {
		return err
	}
	return p.print(map[string]int{"resealed": count}, func(w io.Writer) {
		fmt.Fprintf(w, "Sealed %d values anew; all are sealed with the first key now.\n", count)
	})
}
