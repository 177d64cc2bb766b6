package versions

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// listCommand lists entries of the registry.
type listCommand struct {
	server.Flags `embed:""`
	Query        string `arg:"" optional:"" help:"Text to find in name or description."`
	Public       bool   `env:"-" help:"List the public entries of all organisations."`
}

// Run lists the entries of the caller's organisation, or with --public the public
// entries of all organisations. All pages are read: a person wants to search the
// whole list.
func (c *listCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		entries, err := s.ListEntries(ctx, client.Filter{Query: c.Query, Public: c.Public})
		if err != nil {
			return err
		}
		return term.List[client.ListedEntry]{
			None: "No entries.",
			Head: "NAME\tVERSION\tTYPE\tVISIBILITY\tINSTALLED\tDESCRIPTION",
			Row: func(e client.ListedEntry) []any {
				version := ""
				if e.CurrentVersion != nil {
					version = e.CurrentVersion.Version
				}
				return []any{
					term.Plain(e.Name), term.Plain(version), e.EntryType, e.Visibility, e.InstallationCount,
					term.Cell(e.Description),
				}
			},
		}.Print(p, entries)
	})
}

// historyCommand lists what happened to an entry.
type historyCommand struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"entries" help:"Name or id of the entry."`
}

// Run lists the versions and rollbacks of an entry, newest first. It works for
// public entries of other organisations, too, without their figures.
func (c *historyCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		entry, err := findEntry(ctx, s, c.Name)
		if err != nil {
			return err
		}
		return p.Print(entry.EntryDetail, func(w io.Writer) {
			fmt.Fprintln(w, "TIME\tPASS RATE\tWHAT\tWHY")
			for _, e := range historyOf(entry.EntryDetail) {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.at.Local().Format("2006-01-02 15:04"), e.passRate, e.what, e.reason)
			}
		})
	})
}

// A historyEvent is one line of an entry's history: a pushed version or a rollback.
type historyEvent struct {
	at       time.Time
	passRate string // of a version; "" for a rollback
	what     string
	reason   string
}

// historyOf merges the versions and rollbacks of an entry into one list, newest first.
func historyOf(detail client.EntryDetail) []historyEvent {
	var all []historyEvent
	for _, v := range detail.Versions {
		e := historyEvent{
			at: time.Time(v.PushedAt), passRate: term.Percent(v.AggregatePassRate),
			what: fmt.Sprintf("%s pushed by %s", term.Plain(v.Version), v.Source),
		}
		if v.ChangeSummary != nil {
			e.reason = term.Cell(*v.ChangeSummary)
		}
		switch {
		case v.IsCurrent:
			e.what += ", current"
		case v.State == "candidate", v.State == "withdrawn":
			e.what += ", " + v.State
		}
		if v.RolledBack {
			e.what += ", rolled back"
		}
		all = append(all, e)
	}
	for _, r := range detail.Rollbacks {
		what := fmt.Sprintf("rolled back from %s to %s", term.Plain(r.FromVersion), term.Plain(r.ToVersion))
		if r.PublishedVersion != nil {
			what += " as " + term.Plain(*r.PublishedVersion)
		}
		if r.UndoneAt != nil {
			what += ", undone"
		}
		e := historyEvent{at: time.Time(r.RolledBackAt), what: what}
		if r.Reason != nil {
			e.reason = term.Cell(*r.Reason)
		}
		all = append(all, e)
	}
	// Stable: a version stands above the rollback of the same moment.
	slices.SortStableFunc(all, func(a, b historyEvent) int { return b.at.Compare(a.at) })
	return all
}
