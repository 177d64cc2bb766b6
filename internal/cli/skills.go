package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/whetstone-dev/whetstone/client"
)

type skillsCommand struct {
	remote `embed:""`
	Name   string `arg:"" optional:"" help:"Name or id of a skill to tell more about."`
	Find   string `env:"-" placeholder:"TEXT" help:"Only skills with this text in their names."`
	Status string `env:"-" placeholder:"STATUS" enum:",healthy,warning,critical,unknown" default:"" help:"Only healthy, warning, critical or unknown skills."`
	Sort   string `env:"-" placeholder:"FIELD" help:"Order: name, status, pass_rate, trigger_rate, unique_sessions or last_seen_at; - before it turns it round."`
	Days   int    `env:"-" default:"30" placeholder:"N" help:"With NAME: how many days to show."`
}

// Run tells how all skills do, or one day by day.
func (c *skillsCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		if c.Name != "" {
			detail, err := s.Skill(ctx, c.Name, c.Days)
			if err != nil {
				return err
			}
			return p.print(detail, func(w io.Writer) { printSkill(w, detail) })
		}
		skills, err := s.Skills(ctx, client.SkillFilter{Query: c.Find, Status: c.Status, Sort: c.Sort})
		if err != nil {
			return err
		}
		return p.print(skills, func(w io.Writer) { printSkills(w, skills) })
	})
}

func printSkills(w io.Writer, skills []client.ListedSkill) {
	if len(skills) == 0 {
		fmt.Fprintln(w, "No skills.")
		return
	}
	fmt.Fprintln(w, "SKILL\tSTATUS\tPASS RATE\tTRIGGER RATE\tSESSIONS\tLAST SEEN")
	for _, s := range skills {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", plain(s.Name), s.Status, passRate(s), percent(s.TriggerRate), s.UniqueSessions, day(s.LastSeenAt))
	}
}

// printSkill leaves out the days on which nothing happened.
func printSkill(w io.Writer, detail client.SkillDetail) {
	s := detail.Skill
	fmt.Fprintf(w, "Skill\t%s\n", plain(s.Name))
	fmt.Fprintf(w, "Status\t%s\n", s.Status)
	fmt.Fprintf(w, "Pass rate\t%s\tof %s\n", passRate(s.ListedSkill), count(int(s.GradedSessions), "graded session"))
	fmt.Fprintf(w, "Trigger rate\t%s\n", percent(s.TriggerRate))
	fmt.Fprintf(w, "Confidence\t%s\tknown of %s of the triggers\n", percent(s.AvgConfidence), percent(s.ConfidenceCoverage))
	fmt.Fprintf(w, "Sessions\t%d\n", s.UniqueSessions)
	fmt.Fprintf(w, "Seen\t%s to %s\n", day(s.FirstSeenAt), day(s.LastSeenAt))
	fmt.Fprintln(w)
	fmt.Fprintln(w, "DATE\tSESSIONS\tCHECKS\tTRIGGERS\tTRIGGER RATE\tPASS RATE")
	for _, d := range detail.Days {
		if d.Sessions+d.Checks+d.GradedSessions > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", d.Date, d.Sessions, d.Checks, d.Triggers, percent(d.TriggerRate), percent(d.PassRate))
		}
	}
}

// passRate has its interval in brackets: few sessions say little.
func passRate(s client.ListedSkill) string {
	if s.PassRate == nil || s.PassRateInterval == nil {
		return percent(s.PassRate)
	}
	low, high := s.PassRateInterval[0], s.PassRateInterval[1]
	return fmt.Sprintf("%s (%s to %s)", percent(s.PassRate), percent(&low), percent(&high))
}

// percent writes a share for people; one that is not known is a dash.
func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", math.Round(100**share))
}

func day(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.DateOnly)
}
