package quality

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// skillsCommands are the commands `whetstone skills`. `whetstone skills NAME` shows one
// skill, as list takes an optional name.
type skillsCommands struct {
	List     skillsList     `cmd:"" default:"withargs" help:"List skills with their health and cost; 'list' can be omitted."`
	Show     skillsShow     `cmd:"" help:"Show the health and cost of a skill, day by day."`
	Failures skillsFailures `cmd:"" help:"Show why sessions of a skill failed, most frequent reasons first."`
	Hide     skillsHide     `cmd:"" help:"Leave a skill out of lists and alerts. Needs the permission admin."`
	Unhide   skillsUnhide   `cmd:"" help:"Show a hidden skill again. Needs the permission admin."`
	Merge    skillsMerge    `cmd:"" help:"Merge a skill into another one, which its reports then count for. Needs the permission admin."`
	Unmerge  skillsUnmerge  `cmd:"" help:"Undo a merge. Needs the permission admin."`
}

// skillsList has the filters of the list. Unconfirmed, Hidden and Merged each select
// other skills than the usual list.
type skillsList struct {
	server.Flags `embed:""`
	Name         string `arg:"" optional:"" names:"skills" help:"Name or id of a skill, to show that one."`
	Find         string `env:"-" placeholder:"TEXT" help:"Only skills with this text in their names."`
	Status       string `env:"-" placeholder:"STATUS" enum:",healthy,warning,critical,unknown" default:"" help:"Only healthy, warning, critical or unknown skills."`
	Unconfirmed  bool   `env:"-" help:"Only unconfirmed names: of failed calls, or built into an agent."`
	Hidden       bool   `env:"-" help:"Only hidden skills."`
	Merged       bool   `env:"-" help:"Only skills that are merged into others."`
	Sort         string `env:"-" placeholder:"FIELD" default:"status" help:"Order: status (trouble first), name, pass_rate, trigger_rate, unique_sessions or last_seen_at; prefix - for descending."`
	Days         int    `env:"-" default:"30" placeholder:"N" help:"With NAME: how many days to show."`
}

// Run prints the health of all skills, or with a name of one, day by day.
func (c *skillsList) Run(ctx context.Context, p *term.Program) error {
	if c.Name != "" {
		return (&skillsShow{Flags: c.Flags, Name: c.Name, Days: c.Days}).Run(ctx, p)
	}
	return c.WithSession(p, func(s *server.Session) error {
		skills, err := s.Skills(ctx, client.SkillFilter{
			Query: c.Find, Status: c.Status, Sort: c.Sort, Unconfirmed: c.Unconfirmed, Hidden: c.Hidden, Merged: c.Merged,
		})
		if err != nil {
			return err
		}
		// --json has merged_into with the id.
		if c.Merged && !p.JSON && len(skills) > 0 {
			return c.printMerged(ctx, p, s, skills)
		}
		return term.List[api.ListedSkill]{
			None: c.none(),
			Head: "SKILL\tSTATUS\tPASS RATE\tBASIS\tTRIGGER RATE\tCOST PER USE\tSESSIONS\tLAST SEEN",
			Row: func(s api.ListedSkill) []any {
				var perUse *float64
				if s.Cost != nil {
					perUse = s.Cost.PerUseP50
				}
				return []any{
					term.Plain(s.Name), s.Status, term.Rate(s.PassRate, nil), term.BasisWord(s.PassRateBasis),
					term.Percent(s.TriggerRate), term.Dollars(perUse), s.UniqueSessions, term.Day(s.LastSeenAt),
				}
			},
		}.Print(p, skills)
	})
}

// printMerged prints which skills others are merged into. Merged skills have no figures
// of their own, so the usual columns would be empty.
func (c *skillsList) printMerged(ctx context.Context, p *term.Program, s *server.Session, merged []api.ListedSkill) error {
	all, err := s.Skills(ctx, client.SkillFilter{})
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, k := range all {
		names[k.SkillID] = k.Name
	}
	return term.List[api.ListedSkill]{
		Head: "SKILL\tMERGED INTO",
		Row: func(k api.ListedSkill) []any {
			return []any{term.Plain(k.Name), term.Plain(cmp.Or(names[*k.MergedInto], *k.MergedInto))}
		},
	}.Print(p, merged)
}

// none explains why the list is empty, and what to do if that is unexpected.
func (c *skillsList) none() string {
	switch {
	case c.Find != "" || c.Status != "":
		return "No matching skills."
	case c.Merged:
		return "No skills are merged; `whetstone skills merge NAME INTO` merges one."
	case c.Hidden:
		return "No skills are hidden; `whetstone skills hide NAME` hides one."
	case c.Unconfirmed:
		return "No unconfirmed names: every name that was reported has a real use."
	}
	return "No skills yet; `whetstone import` reports the sessions that Claude Code keeps on this machine."
}

// skillsShow selects a skill. Days only changes the table below; the figures have
// the server's window.
type skillsShow struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"skills" help:"Name or id of the skill."`
	Days         int    `env:"-" default:"30" placeholder:"N" help:"How many days to show."`
}

// Run prints a skill. The name of its merge target and the agreement of its judge with
// people need further requests, which --json does without.
func (c *skillsShow) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		detail, err := s.Skill(ctx, c.Name, c.Days)
		if err != nil {
			return namedSkill(err, c.Name)
		}
		// Further requests only for people, who cannot do much with an id.
		target := ""
		if into := detail.Skill.MergedInto; into != nil && !p.JSON {
			found, err := s.Skill(ctx, *into, 1)
			if err != nil {
				return err
			}
			target = found.Skill.Name
		}
		judge := ""
		if detail.Skill.GradedByBasis["judge"] > 0 && !p.JSON {
			found, err := s.Calibration(ctx, c.Name)
			if err != nil {
				return err
			}
			judge = agreement(found)
		}
		return p.Print(detail, func(w io.Writer) { printSkill(w, detail, target, judge) })
	})
}

// namedSkill replaces a 404 with advice on how to find the name of the skill. Other
// errors, and nil, are returned unchanged.
func namedSkill(err error, name string) error {
	if client.Status(err) != http.StatusNotFound {
		return err
	}
	return fault.New(fault.NotFound, "Skill not found: %s; `whetstone skills --find TEXT` searches names, --unconfirmed and "+
		"--hidden list the others", term.Plain(name))
}

// agreement formats how far the judge can be trusted: how often it agrees with people,
// with Cohen's kappa where that is defined. Kappa is undefined if all verdicts are
// the same.
func agreement(c client.Calibration) string {
	if c.Agreement == nil {
		return "not compared with people yet"
	}
	text := fmt.Sprintf("agrees with people in %s of %s", term.Rate(c.Agreement, c.Interval), term.Count(c.Pairs, "session"))
	if c.Kappa != nil {
		text += fmt.Sprintf(", kappa %.2f (%.2f to %.2f)", *c.Kappa, c.KappaInterval[0], c.KappaInterval[1])
	}
	return text
}

// printSkill prints a skill and its days, without those that had no activity. target is
// the name of the skill that this one is merged into, or "", and judge is the agreement
// of its judge with people, or "". Hundreds of empty days would hide the others.
func printSkill(w io.Writer, detail api.SkillDetail, target, judge string) {
	s := detail.Skill
	fmt.Fprintf(w, "Skill\t%s\n", term.Plain(s.Name))
	fmt.Fprintf(w, "Status\t%s\n", s.Status)
	if !s.Confirmed {
		fmt.Fprintln(w, "Unconfirmed\tno successful use was reported: all calls failed, or it is built into an agent")
	}
	if s.Hidden {
		fmt.Fprintln(w, "Hidden\tyes; `whetstone skills unhide` shows it again")
	}
	if target != "" {
		fmt.Fprintf(w, "Merged into\t%s; `whetstone skills unmerge` undoes it\n", term.Plain(target))
	}
	fmt.Fprintf(w, "Pass rate\t%s\tof %s\n", term.Rate(s.PassRate, s.PassRateInterval),
		term.Count(int(s.GradedSessions), "graded session"))
	if s.GradedSessions > 0 {
		fmt.Fprintf(w, "Basis\t%s\n", term.Basis(s.GradedByBasis, s.PassRatesByBasis))
	}
	if judge != "" {
		fmt.Fprintf(w, "Judge\t%s\n", judge)
	}
	fmt.Fprintf(w, "Trigger rate\t%s%s\n", term.Percent(s.TriggerRate), triggerBasis(s))
	fmt.Fprintf(w, "Confidence\t%s\tknown of %s of the triggers\n", term.Percent(s.AvgConfidence),
		term.Percent(s.ConfidenceCoverage))
	fmt.Fprintf(w, "Sessions\t%d\n", s.UniqueSessions)
	fmt.Fprintf(w, "Seen\t%s to %s\n", term.Day(s.FirstSeenAt), term.Day(s.LastSeenAt))
	if s.Cost != nil {
		// These rows are indented below the total: they are shares or averages of it.
		fmt.Fprintf(w, "Cost\t%s\t%s\n", term.Dollars(s.Cost.Total), costBasis(*s.Cost))
		fmt.Fprintf(w, "  per use\t%s\tmedian; 95%% cost at most %s\n", term.Dollars(s.Cost.PerUseP50), term.Dollars(s.Cost.PerUseP95))
		fmt.Fprintf(w, "  per success\t%s\n", term.Dollars(s.Cost.PerSuccess))
		if s.Cost.StandingPerSession != nil || s.Cost.LoadPerUse != nil {
			fmt.Fprintf(w, "  its text\t%s\tper session to list it, %s per use to load SKILL.md; estimates\n",
				term.Dollars(s.Cost.StandingPerSession), term.Dollars(s.Cost.LoadPerUse))
		}
		fmt.Fprintf(w, "  tokens\t%d in, %d out, %d read from the cache, %d written to it\n",
			s.Cost.Tokens.Input, s.Cost.Tokens.Output, s.Cost.Tokens.CacheRead, s.Cost.Tokens.CacheWrite)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "DATE\tSESSIONS\tCHECKS\tTRIGGERS\tTRIGGER RATE\tPASS RATE")
	for _, d := range detail.Days {
		if d.Sessions+d.Checks+d.GradedSessions > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", d.Date, d.Sessions, d.Checks, d.Triggers,
				term.Percent(d.TriggerRate), term.Percent(d.PassRate))
		}
	}
}

// triggerBasis formats which sessions the trigger rate is a share of: those that
// offered the skill, or, where offers are unknown, those that considered it.
func triggerBasis(s api.Skill) string {
	switch {
	case s.TriggerRateBasis == nil:
		return ""
	case *s.TriggerRateBasis == "offered":
		if s.SeenSessions == s.OfferedSessions {
			return fmt.Sprintf("\tof %s that offered it", term.Count(int(s.SeenSessions), "session"))
		}
		return fmt.Sprintf("\tof %s; %d offered it", term.Count(int(s.SeenSessions), "session"), s.OfferedSessions)
	}
	return fmt.Sprintf("\tof %s that considered it; offers are unknown", term.Count(int(s.SeenSessions), "session"))
}

// skillsHide hides a skill.
type skillsHide struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"skills" help:"Name or id of the skill."`
}

// Run hides a skill from lists, alerts and pending proposals. Its data stays.
func (c *skillsHide) Run(ctx context.Context, p *term.Program) error {
	return changeSkill(&c.Flags, p, c.Name,
		func(s *server.Session) (api.SkillDetail, error) { return s.HideSkill(ctx, c.Name, true) },
		func(name string) string {
			return term.Plain(name) + " is hidden: lists, alerts and pending proposals leave it out. " +
				"`whetstone skills unhide` shows it again."
		})
}

// skillsUnhide shows a skill again.
type skillsUnhide struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"skills" help:"Name or id of the skill; 'skills --hidden' lists them."`
}

// Run shows a hidden skill again.
func (c *skillsUnhide) Run(ctx context.Context, p *term.Program) error {
	return changeSkill(&c.Flags, p, c.Name,
		func(s *server.Session) (api.SkillDetail, error) { return s.HideSkill(ctx, c.Name, false) },
		func(name string) string { return term.Plain(name) + " is listed again." })
}

// skillsMerge merges two names of one skill.
type skillsMerge struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"skills" help:"Name or id of the skill to merge."`
	Into         string `arg:"" names:"skills" help:"Name or id of the skill to merge it into."`
}

// Run merges a skill into another one: new reports count for that at once, old ones are
// moved by a job.
func (c *skillsMerge) Run(ctx context.Context, p *term.Program) error {
	return changeSkill(&c.Flags, p, c.Name,
		func(s *server.Session) (api.SkillDetail, error) { return s.MergeSkill(ctx, c.Name, c.Into) },
		func(name string) string {
			return fmt.Sprintf("Merged %s into %s. What was reported before is moved in the background. "+
				"`whetstone skills unmerge` undoes it.", term.Plain(name), term.Plain(c.Into))
		})
}

// skillsUnmerge undoes a merge.
type skillsUnmerge struct {
	server.Flags `embed:""`
	Name         string `arg:"" help:"Name or id of the merged skill; 'skills --merged' lists them."`
}

// Run undoes a merge. Old reports are moved back by a job.
func (c *skillsUnmerge) Run(ctx context.Context, p *term.Program) error {
	return changeSkill(&c.Flags, p, c.Name,
		func(s *server.Session) (api.SkillDetail, error) { return s.UnmergeSkill(ctx, c.Name) },
		func(name string) string {
			return term.Plain(name) + " counts for itself again. What was reported before is moved back in the background."
		})
}

// changeSkill changes a skill, and prints the changed skill as JSON or the text of
// done for people. A name that is not found gets advice on how to find it.
func changeSkill(
	f *server.Flags, p *term.Program, name string, do func(*server.Session) (api.SkillDetail, error),
	done func(name string) string,
) error {
	return f.WithSession(p, func(s *server.Session) error {
		detail, err := do(s)
		if err != nil {
			return namedSkill(err, name)
		}
		return p.Print(detail, func(w io.Writer) { fmt.Fprintln(w, done(detail.Skill.Name)) })
	})
}
