package quality

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// evalScheduleCommands are the commands `whetstone eval schedule`.
type evalScheduleCommands struct {
	List   scheduleListCommand   `cmd:"" help:"List the schedules."`
	Create scheduleCreateCommand `cmd:"" help:"Run a suite on a skill at fixed times."`
	Run    scheduleRunCommand    `cmd:"" help:"Start a run of a schedule now."`
	Pause  schedulePauseCommand  `cmd:"" help:"Pause a schedule."`
	Resume scheduleResumeCommand `cmd:"" help:"Resume a paused schedule."`
	Delete scheduleDeleteCommand `cmd:"" help:"Delete a schedule; its runs stay."`
}

// when says at which times a schedule is due.
func when(sch api.EvalSchedule) string {
	if sch.Cron != nil {
		return *sch.Cron + " (UTC)"
	}
	return "every " + *sch.Every
}

// next says when a schedule is due next, or why it isn't.
func next(sch api.EvalSchedule) string {
	switch {
	case sch.NextAt == nil:
		return "paused"
	case sch.PausedReason != nil:
		return term.Plain(*sch.PausedReason)
	}
	return sch.NextAt.String()
}

func printSchedule(p *term.Program, sch api.EvalSchedule) error {
	return p.Print(sch, func(w io.Writer) {
		fmt.Fprintf(w, "%s, %s; next: %s\n%s\n", term.Plain(sch.Skill), when(sch), next(sch), sch.ID)
	})
}

// scheduleListCommand lists schedules.
type scheduleListCommand struct {
	server.Flags `embed:""`
	Suite        string `env:"-" names:"suites" help:"Only schedules of this suite (name or id)."`
}

// Run lists the schedules, newest first.
func (c *scheduleListCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		var f client.ScheduleFilter
		var err error
		if c.Suite != "" {
			if f.SuiteID, err = s.SuiteID(ctx, c.Suite); err != nil {
				return err
			}
		}
		all, err := s.Schedules(ctx, f)
		if err != nil {
			return err
		}
		return term.List[api.EvalSchedule]{
			None: "No schedules; `whetstone eval schedule create SUITE --entry NAME` makes one.",
			Head: "SCHEDULE\tSKILL\tVERSION\tWHEN\tNEXT\tREFERENCE",
			Row: func(sch api.EvalSchedule) []any {
				reference := "-"
				if sch.Reference != nil {
					reference = fmt.Sprintf("%.0f%%", 100*sch.Reference.Score)
				}
				return []any{sch.ID, term.Cell(sch.Skill), sch.Version, when(sch), next(sch), reference}
			},
		}.Print(p, all)
	})
}

// scheduleCreateCommand has the flags of a new schedule.
type scheduleCreateCommand struct {
	server.Flags `embed:""`
	suiteArg     `embed:""`
	Source       string `env:"-" placeholder:"SOURCE" xor:"subject" required:"" help:"Run on the newest snapshot of this cloud source (label or id)."`
	Entry        string `env:"-" placeholder:"NAME" xor:"subject" required:"" help:"Run on this entry of the registry (name or id)."`
	Version      string `env:"-" placeholder:"V" help:"Version of the entry; the one that is current at each time when omitted."`
	Agent        string `env:"-" placeholder:"NAME[:MODEL]" help:"Agent and model that work on the cases; without one, a model answers."`
	Trials       int    `env:"-" default:"3" help:"How often to try each case in each run, at most 30."`
	Baseline     string `env:"-" enum:"none,no_skill,previous" default:"none" help:"Compare with none, no_skill or the previous version."`
	Every        string `env:"-" placeholder:"24h" xor:"when" help:"How often, 1h to 30d; 24h when omitted."`
	Cron         string `env:"-" placeholder:"'0 3 * * *'" xor:"when" help:"Minute, hour, day of month, month and day of week, in UTC."`
	MaxCost      string `name:"max-cost-usd" env:"-" placeholder:"USD" help:"Most that one run may cost (USD)."`
	MaxMonth     string `name:"max-cost-usd-month" env:"-" placeholder:"USD" help:"Most that all runs of a calendar month may cost (USD)."`
}

// Run makes a schedule.
func (c *scheduleCreateCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		n := api.NewEvalSchedule{Trials: c.Trials, Baseline: c.Baseline, Every: c.Every, Cron: c.Cron}
		var err error
		if n.SuiteID, err = s.SuiteID(ctx, c.Suite); err != nil {
			return err
		}
		subject, err := s.EvalSubject(ctx, c.Source, c.Entry, c.Version)
		if err != nil {
			return err
		}
		n.EntryID, n.SourceID, n.Version = subject.EntryID, subject.SourceID, subject.Version
		if c.Agent != "" {
			name, model, _ := strings.Cut(c.Agent, ":")
			n.Agent = &api.EvalAgent{Name: name, Model: model}
		}
		if err := readLimit("max-cost-usd", c.MaxCost, &n.MaxCostUSD); err != nil {
			return err
		}
		if err := readLimit("max-cost-usd-month", c.MaxMonth, &n.MaxCostUSDMonth); err != nil {
			return err
		}
		sch, err := s.CreateSchedule(ctx, n)
		if err != nil {
			return err
		}
		return printSchedule(p, sch)
	})
}

// scheduleArg is the argument of the commands about one schedule, which has no name.
type scheduleArg struct {
	server.Flags `embed:""`
	Schedule     string `arg:"" help:"Id of the schedule."`
}

// enable pauses or resumes the schedule.
func (c *scheduleArg) enable(ctx context.Context, p *term.Program, enabled bool) error {
	return c.WithSession(p, func(s *server.Session) error {
		sch, err := s.UpdateSchedule(ctx, c.Schedule, api.EvalScheduleChange{Enabled: &enabled})
		if err != nil {
			return err
		}
		return printSchedule(p, sch)
	})
}

// scheduleRunCommand starts a run.
type scheduleRunCommand struct {
	scheduleArg `embed:""`
}

// Run starts a run of the schedule, whatever the time.
func (c *scheduleRunCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		run, err := s.RunSchedule(ctx, c.Schedule)
		if err != nil {
			return err
		}
		return p.Print(run, func(w io.Writer) {
			fmt.Fprintf(w, "Started the run %s; `whetstone eval watch %s` follows it.\n%s\n", run.ID, run.ID, s.Page("runs", run.ID))
		})
	})
}

// schedulePauseCommand pauses a schedule.
type schedulePauseCommand struct {
	scheduleArg `embed:""`
}

// Run pauses the schedule.
func (c *schedulePauseCommand) Run(ctx context.Context, p *term.Program) error {
	return c.enable(ctx, p, false)
}

// scheduleResumeCommand resumes a schedule.
type scheduleResumeCommand struct {
	scheduleArg `embed:""`
}

// Run resumes the schedule.
func (c *scheduleResumeCommand) Run(ctx context.Context, p *term.Program) error {
	return c.enable(ctx, p, true)
}

// scheduleDeleteCommand deletes a schedule.
type scheduleDeleteCommand struct {
	scheduleArg `embed:""`
}

// Run deletes the schedule.
func (c *scheduleDeleteCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		path := "/api/v1/eval-schedules/" + url.PathEscape(c.Schedule)
		return s.Delete(ctx, p, path, c.Schedule, "deleted", "Deleted the schedule; its runs stay.")
	})
}
