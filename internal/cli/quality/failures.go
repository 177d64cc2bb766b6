package quality

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

type skillsFailures struct {
	server.Flags `embed:""`
	Name         string `arg:"" help:"Name or id of the skill."`
	Days         int    `env:"-" default:"30" placeholder:"N" help:"How many days to look back."`
}

// Run prints the reasons, and sessions to open with `whetstone session show`.
func (c *skillsFailures) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		groups, err := s.Failures(ctx, c.Name, c.Days)
		if err != nil {
			return namedSkill(err, c.Name)
		}
		return p.Print(groups, func(w io.Writer) {
			if len(groups) == 0 {
				fmt.Fprintln(w, "No reason of a failed grade is known; people and the judge give reasons, clients that report grades do not.")
				return
			}
			fmt.Fprintln(w, "SESSIONS\tLAST\tWHAT GOES WRONG\tREASON\tNEWEST SESSIONS")
			for _, g := range groups {
				reason := "-"
				if g.LabelledBy != nil {
					reason = g.Reason
				}
				fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", g.Count, term.Day(&g.LastAt), term.Cell(g.Label), term.Cell(reason),
					term.Plain(strings.Join(g.Sessions, " ")))
			}
		})
	})
}
