package quality

import (
	"context"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// skillsFailures selects a skill.
type skillsFailures struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"skills" help:"Name or id of the skill."`
	Days         int    `env:"-" default:"30" placeholder:"N" help:"How many days to look back."`
}

// Run prints why sessions of the skill failed, the most frequent reason first, with the
// ids of sessions to open with `whetstone session show`.
func (c *skillsFailures) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		groups, err := s.Failures(ctx, c.Name, c.Days)
		if err != nil {
			return namedSkill(err, c.Name)
		}
		return term.List[client.FailureGroup]{
			None: "No reason of a failed grade is known; people and the judge give reasons, clients that report grades do not.",
			Head: "SESSIONS\tLAST\tWHAT GOES WRONG\tREASON\tNEWEST SESSIONS",
			Row: func(g client.FailureGroup) []any {
				reason := "-"
				if g.LabelledBy != nil {
					reason = g.Reason
				}
				return []any{
					g.Count, term.Day(&g.LastAt), term.Cell(g.Label), term.Cell(reason),
					term.Plain(strings.Join(g.Sessions, " ")),
				}
			},
		}.Print(p, groups)
	})
}
