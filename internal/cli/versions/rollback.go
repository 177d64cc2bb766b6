package versions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// rollbackCommand has the flags of `whetstone rollback`. A version that is named
// need not be among the choices: the server decides.
type rollbackCommand struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"entries" help:"Name or id of the entry."`
	Version      string `arg:"" optional:"" help:"Version to go back to; the one that was current before when empty."`
	Reason       string `env:"-" help:"Reason, for the history."`
	RollForward  bool   `env:"-" help:"Publish the content as the next patch, for clients that never go down to a lower version."`
	Undo         bool   `env:"-" help:"Undo the last rollback."`
	List         bool   `env:"-" help:"Only list the versions to go back to, with their figures."`
	Yes          bool   `env:"-" help:"Do not ask."`
}

// Run makes another version current. On a terminal it shows the versions to choose from
// with their figures and asks; scripts and --yes are not asked.
func (c *rollbackCommand) Run(ctx context.Context, p *term.Program) error {
	if c.Undo && (c.Version != "" || c.RollForward) {
		return fault.Invalid("undo",
			"--undo goes back to the version before the rollback: name no version, and do not roll forward")
	}
	return c.WithSession(p, func(s *server.Session) error {
		entry, err := s.OwnEntry(ctx, c.Name)
		if err != nil {
			return err
		}
		ask := p.Interactive && !p.JSON && !c.Yes
		if c.List || ask {
			// Only for people: scripts say what they want, and save the request.
			choices, err := s.RollbackChoices(ctx, entry.ID)
			if err != nil {
				return err
			}
			if c.List {
				return p.Print(choices, func(w io.Writer) { printChoices(w, c.Name, choices) })
			}
			if !c.confirm(ctx, p, entry, choices) {
				return fault.New(fault.Conflict, "Nothing was changed")
			}
		}
		out, err := c.apply(ctx, s, entry.ID)
		if err != nil {
			return err
		}
		// Skills that require this one may no longer get a version that they accept.
		noteDependents(ctx, p, s, entry.ID)
		return p.Print(out, func(w io.Writer) {
			what := "Rolled back"
			if c.Undo {
				what = "Undid the rollback of"
			}
			fmt.Fprintf(w, "%s %s from %s to %s; installations follow with their next sync.\n", what,
				term.Plain(out.Entry.Name), term.Plain(out.RolledBackFrom), term.Plain(out.Version.Version))
		})
	})
}

// apply calls the operation that the flags select.
func (c *rollbackCommand) apply(ctx context.Context, s *server.Session, entryID string) (client.RollbackResult, error) {
	switch {
	case c.Undo:
		return s.Undo(ctx, entryID, c.Reason)
	case c.RollForward:
		return s.RollForward(ctx, entryID, c.Version, c.Reason)
	}
	return s.Rollback(ctx, entryID, c.Version, c.Reason)
}

// confirm shows the figures of the choices and asks; a missing reason is asked for,
// too. It writes to standard error, as standard output has only the result.
func (c *rollbackCommand) confirm(ctx context.Context, p *term.Program, entry client.Entry, choices client.Choices) bool {
	w := tabwriter.NewWriter(p.Stderr, 0, 0, 2, ' ', 0)
	printChoices(w, c.Name, choices)
	// The question is asked even if the table could not be written.
	_ = w.Flush()
	question := fmt.Sprintf("Roll %s back to %s? Installations follow with their next sync.", entry.Name,
		cmp.Or(c.Version, term.OrDash(choices.DefaultTarget)))
	if c.Undo {
		question = fmt.Sprintf("Undo the last rollback of %s?", entry.Name)
	}
	if !p.Confirm(ctx, question) {
		return false
	}
	if c.Reason == "" {
		c.Reason = p.Ask(ctx, "Reason, for the history (may be empty):")
	}
	return true
}

// printChoices prints the current version and those to go back to as a table.
// Figures are of each version alone, so that a person can compare them.
func printChoices(w io.Writer, name string, all client.Choices) {
	fmt.Fprintln(w, "VERSION\tPASS RATE\tBASIS\tGRADED\tSESSIONS\tCOST PER USE\tWAS CURRENT\tSTATE")
	if all.Current != nil {
		printChoice(w, *all.Current, "current")
	}
	for _, choice := range all.Targets {
		state := choice.State
		switch {
		case all.DefaultTarget != nil && choice.Version == *all.DefaultTarget:
			state += ", default"
		case choice.RolledBack:
			state = "rolled back"
		}
		// The default is the newest version that was current before and was not
		// rolled back.
		printChoice(w, choice, state)
	}
	if all.Undo != nil {
		fmt.Fprintf(w, "\n`whetstone rollback %s --undo` makes %s current again.\n", term.Plain(name), term.Plain(all.Undo.FromVersion))
	}
	if all.ForwardOnlyClients {
		fmt.Fprintln(w, "\nIt is installed by clients that never go down to a lower version: use --roll-forward.")
	}
}

// printChoice prints one version. CurrentSince is nil if it was never current,
// CurrentUntil if it still is.
func printChoice(w io.Writer, c client.Choice, state string) {
	var cost *float64
	if c.Cost != nil {
		cost = c.Cost.PerUseP50
	}
	tenure := "never"
	if c.CurrentSince != nil {
		tenure = term.Day(c.CurrentSince) + " to " + term.Day(c.CurrentUntil)
		if c.CurrentUntil == nil {
			tenure = "since " + term.Day(c.CurrentSince)
		}
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", term.Plain(c.Version), term.Rate(c.PassRate, c.PassRateInterval),
		term.BasisWord(c.PassRateBasis), c.GradedSessions, c.Sessions, term.Dollars(cost), tenure, state)
}
