package remote

import (
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

type skillsCommand struct {
	serverFlags `embed:""`
	Name        string `arg:"" optional:"" help:"Name or id of a skill, to show its details."`
	Find        string `env:"-" placeholder:"TEXT" help:"Only skills with this text in their names."`
	Status      string `env:"-" placeholder:"STATUS" enum:",healthy,warning,critical,unknown" default:"" help:"Only healthy, warning, critical or unknown skills."`
	Sort        string `env:"-" placeholder:"FIELD" help:"Order: name, status, pass_rate, trigger_rate, unique_sessions or last_seen_at; prefix - for descending."`
	Days        int    `env:"-" default:"30" placeholder:"N" help:"With NAME: how many days to show."`
}

// Run prints the health of all skills, or of one day by day.
func (c *skillsCommand) Run(ctx context.Context, p *term.Program) error {
	return c.withSession(p, func(s *session) error {
		if c.Name != "" {
			detail, err := s.Skill(ctx, c.Name, c.Days)
			if err != nil {
				return err
			}
			return p.Print(detail, func(w io.Writer) { printSkill(w, detail) })
		}
		skills, err := s.Skills(ctx, client.SkillFilter{Query: c.Find, Status: c.Status, Sort: c.Sort})
		if err != nil {
			return err
		}
		return p.Print(skills, func(w io.Writer) {
			if len(skills) == 0 {
				fmt.Fprintln(w, "No skills.")
				return
			}
			fmt.Fprintln(w, "SKILL\tSTATUS\tPASS RATE\tTRIGGER RATE\tSESSIONS\tLAST SEEN")
			for _, s := range skills {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", term.Plain(s.Name), s.Status, term.Rate(s.PassRate, s.PassRateInterval),
					term.Percent(s.TriggerRate), s.UniqueSessions, term.Day(s.LastSeenAt))
			}
		})
	})
}

// printSkill omits days without activity.
func printSkill(w io.Writer, detail client.SkillDetail) {
	s := detail.Skill
	fmt.Fprintf(w, "Skill\t%s\n", term.Plain(s.Name))
	fmt.Fprintf(w, "Status\t%s\n", s.Status)
	fmt.Fprintf(w, "Pass rate\t%s\tof %s\n", term.Rate(s.PassRate, s.PassRateInterval),
		term.Count(int(s.GradedSessions), "graded session"))
	fmt.Fprintf(w, "Trigger rate\t%s\n", term.Percent(s.TriggerRate))
	fmt.Fprintf(w, "Confidence\t%s\tknown of %s of the triggers\n", term.Percent(s.AvgConfidence),
		term.Percent(s.ConfidenceCoverage))
	fmt.Fprintf(w, "Sessions\t%d\n", s.UniqueSessions)
	fmt.Fprintf(w, "Seen\t%s to %s\n", term.Day(s.FirstSeenAt), term.Day(s.LastSeenAt))
	fmt.Fprintln(w)
	fmt.Fprintln(w, "DATE\tSESSIONS\tCHECKS\tTRIGGERS\tTRIGGER RATE\tPASS RATE")
	for _, d := range detail.Days {
		if d.Sessions+d.Checks+d.GradedSessions > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", d.Date, d.Sessions, d.Checks, d.Triggers,
				term.Percent(d.TriggerRate), term.Percent(d.PassRate))
		}
	}
}
