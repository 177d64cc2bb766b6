package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/client"
)

type listCommand struct {
	remote `embed:""`
	Query  string `arg:"" optional:"" help:"Text to find in name or description."`
	Public bool   `env:"-" help:"List the public entries of all organisations."`
}

// Run lists entries.
func (c *listCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		entries, err := s.ListEntries(ctx, client.Filter{Query: c.Query, Public: c.Public})
		if err != nil {
			return err
		}
		return p.print(entries, func(w io.Writer) {
			if len(entries) == 0 {
				fmt.Fprintln(w, "No entries.")
				return
			}
			fmt.Fprintln(w, "NAME\tVERSION\tTYPE\tVISIBILITY\tINSTALLED\tDESCRIPTION")
			for _, e := range entries {
				version := ""
				if e.CurrentVersion != nil {
					version = e.CurrentVersion.Version
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", plain(e.Name), plain(version), e.EntryType, e.Visibility,
					e.InstallationCount, shorten(e.Description))
			}
		})
	})
}

type historyCommand struct {
	remote `embed:""`
	Name   string `arg:"" help:"Name or id of the entry."`
}

// Run lists the versions and rollbacks of an entry, newest first.
func (c *historyCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		detail, err := s.find(ctx, c.Name)
		if err != nil {
			return err
		}
		return p.print(detail.EntryDetail, func(w io.Writer) {
			for _, e := range events(detail.EntryDetail) {
				fmt.Fprintf(w, "%s\t%s%s\n", e.at.Local().Format("2006-01-02 15:04"), e.what, e.why)
			}
		})
	})
}

// An event is one line of a history.
type event struct {
	at   time.Time
	what string
	why  string // a column of its own, if there is one
}

func events(detail client.EntryDetail) []event {
	var all []event
	for _, v := range detail.Versions {
		e := event{at: v.PushedAt, what: fmt.Sprintf("%s pushed by %s", plain(v.Version), v.Source)}
		if v.ChangeSummary != nil {
			e.why = "\t" + shorten(*v.ChangeSummary)
		}
		if v.IsCurrent {
			e.what += ", current"
		}
		if v.RolledBack {
			e.what += ", rolled back"
		}
		all = append(all, e)
	}
	for _, r := range detail.Rollbacks {
		e := event{at: r.RolledBackAt, what: fmt.Sprintf("rolled back from %s to %s", plain(r.FromVersion), plain(r.ToVersion))}
		if r.Reason != nil {
			e.why = "\t" + shorten(*r.Reason)
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(b.at.UnixNano(), a.at.UnixNano()) })
	return all
}

type rollbackCommand struct {
	remote  `embed:""`
	Name    string `arg:"" help:"Name or id of the entry."`
	Version string `arg:"" optional:"" help:"Version to go back to; the one before the current when empty."`
	Reason  string `env:"-" help:"Why."`
}

// Run makes another version current.
func (c *rollbackCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		detail, err := s.find(ctx, c.Name)
		if err != nil {
			return err
		}
		out, err := s.Rollback(ctx, detail.Entry.ID, c.Version, c.Reason)
		if err != nil {
			return err
		}
		return p.print(out, func(w io.Writer) {
			fmt.Fprintf(w, "Rolled back %s from %s to %s; installations follow with their next sync.\n",
				plain(out.Entry.Name), plain(out.RolledBackFrom), plain(out.Version.Version))
		})
	})
}
