package quality

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// incidentCommands are the commands `whetstone incident`. An incident follows an
// automatic rollback until every installation has the good version.
type incidentCommands struct {
	List incidentList `cmd:"" help:"List incidents, newest first."`
	Show incidentShow `cmd:"" help:"Show an incident with its timeline."`
}

// incidentList has the filter of the list.
type incidentList struct {
	server.Flags `embed:""`
	State        string `env:"-" enum:",open,closed" default:"" placeholder:"STATE" help:"open or closed; both when empty."`
}

// Run lists incidents, newest first, with the number of installations that still have
// the bad version.
func (c *incidentList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		all, err := s.Incidents(ctx, c.State)
		if err != nil {
			return err
		}
		return term.List[client.Incident]{
			None: "No incidents.",
			Head: "ID\tOPENED\tSKILL\tBAD\tCURRENT\tLEFT\tSTATE",
			Row: func(i client.Incident) []any {
				return []any{
					i.ID, term.Minute(i.OpenedAt), term.Plain(i.Skill), term.Plain(i.Version), term.Plain(i.GoodVersion),
					i.InstallationsLeft, i.State,
				}
			},
		}.Print(p, all)
	})
}

// incidentShow selects an incident.
type incidentShow struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"incident" names:"skills" help:"Id of the incident, or the skill of the newest one."`
}

// Run shows an incident: its evidence, the devices that still have the bad version, and
// its timeline.
func (c *incidentShow) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) (err error) {
		c.ID, err = server.ID("incident", "incident list", c.ID, func() ([]client.Incident, error) {
			// A skill may have several incidents; its name means the newest, and the
			// list is newest first.
			all, err := s.Incidents(ctx, "")
			if i := slices.IndexFunc(all, func(i client.Incident) bool { return i.Skill == c.ID }); i >= 0 {
				all = all[i : i+1]
			}
			return all, err
		}, func(i client.Incident) (string, []string) { return i.ID, []string{i.Skill} })
		if err != nil {
			return err
		}
		i, err := s.Incident(ctx, c.ID)
		if err != nil {
			return err
		}
		return p.Print(i, func(w io.Writer) {
			fmt.Fprintf(w, "%s %s: %s\n%s\n", term.Plain(i.Skill), term.Plain(i.Version), i.State, term.Cell(i.Evidence))
			if i.Issue != nil && i.Issue.URL != nil {
				fmt.Fprintf(w, "Issue: %s (%s)\n", term.Plain(*i.Issue.URL), i.Issue.Status)
			}
			fmt.Fprintf(w, "Installations with the version: %d", i.InstallationsLeft)
			if len(i.Devices) > 0 {
				fmt.Fprintf(w, " (%s)", term.Cell(strings.Join(i.Devices, ", ")))
			}
			fmt.Fprintln(w)
			for _, m := range i.Timeline {
				fmt.Fprintf(w, "%s\t%s\n", term.Minute(m.At), term.Cell(m.Text))
			}
			if i.State == "open" {
				fmt.Fprintf(w, "\nIt closes when these have run `whetstone sync`, or with `whetstone rollback %s --undo`.\n",
					term.Plain(i.Skill))
			}
		})
	})
}
