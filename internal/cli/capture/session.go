package capture

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// sessionCommands are the commands `whetstone session`.
type sessionCommands struct {
	List sessionList `cmd:"" help:"List the sessions of agents, newest first."`
	Show sessionShow `cmd:"" help:"Show what happened in a session, and its grades."`
	Case sessionCase `cmd:"" help:"Create a test case from a session."`
}

// sessionList has the filters of the list, which the server applies. The zero value of
// each means all. Whose a session is, is shown to admins only, so Mine is the only
// filter by person.
type sessionList struct {
	server.Flags `embed:""`
	Skill        string `env:"-" placeholder:"NAME" help:"Only sessions that were offered this skill or used it."`
	Version      string `env:"-" placeholder:"V" help:"Only sessions that used this version."`
	Outcome      string `env:"-" placeholder:"OUTCOME" enum:",pass,fail,tool_errors" default:"" help:"pass, fail or tool_errors."`
	Graded       string `env:"-" placeholder:"BOOL" enum:",true,false" default:"" help:"true or false: whether there is a grade."`
	Agent        string `env:"-" placeholder:"AGENT" help:"E.g. claude-code."`
	Mine         bool   `env:"-" help:"Only your own."`
	Since        string `env:"-" placeholder:"TIME" help:"Only sessions that began at this time or day, or later."`
	Until        string `env:"-" placeholder:"TIME" help:"Only sessions that began before this time or day."`
	Limit        int    `env:"-" default:"50" placeholder:"N" help:"Maximum number."`
}

// Run prints the newest sessions that the caller may see.
func (c *sessionList) Run(ctx context.Context, p *term.Program) error {
	f := client.SessionFilter{
		Skill: c.Skill, Version: c.Version, Outcome: c.Outcome, Graded: c.Graded, Agent: c.Agent, Since: c.Since, Until: c.Until,
	}
	if c.Mine {
		f.User = "me"
	}
	return c.WithSession(p, func(s *server.Session) error {
		// Pages are read until the limit is reached; a page may have fewer than it
		// could.
		all, err := s.Sessions(ctx, f, max(c.Limit, 1))
		if err != nil {
			return err
		}
		return term.List[client.Session]{
			None: "No sessions.",
			Head: "SESSION\tSTARTED\tAGENT\tTURNS\tTOOLS\tERRORS\tCOST\tGRADE\tSKILLS",
			Row: func(s client.Session) []any {
				return []any{
					term.Plain(s.SessionID), term.Minute(s.StartedAt), term.Plain(s.Agent), term.Number(s.Turns),
					term.Number(s.ToolCalls), term.Number(s.ToolErrors), term.Dollars(s.CostUSD), gradeOf(s),
					term.Cell(activated(s)),
				}
			},
		}.Print(p, all)
	})
}

// gradeOf formats the grade of a session with its basis, e.g. "100% (judge)". A dash
// is "no grade", which is not the same as 0 %.
func gradeOf(s client.Session) string {
	if s.Grade == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", term.Percent(&s.Grade.PassRate), term.BasisWord(&s.Grade.Basis))
}

// activated returns the names of the skills that the session used, and not those that
// it was only offered.
func activated(s client.Session) string {
	var names []string
	for _, k := range s.Skills {
		if k.Activated {
			names = append(names, k.Name)
		}
	}
	return strings.Join(names, ", ")
}

// sessionShow shows one session.
type sessionShow struct {
	server.Flags `embed:""`
	ID           string `arg:"" help:"Id of the session, as the agent calls it."`
}

// Run prints a session as a timeline, with its grades.
func (c *sessionShow) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		detail, err := s.Session(ctx, c.ID)
		if err != nil {
			return err
		}
		return p.Print(detail, func(w io.Writer) { printSession(w, detail) })
	})
}

// printSession prints the figures of a session, its grades, and its events. Texts
// come from agents and people, and are stripped of control characters.
func printSession(w io.Writer, d client.SessionDetail) {
	fmt.Fprintf(w, "Session\t%s\n", term.Plain(d.SessionID))
	fmt.Fprintf(w, "Agent\t%s\n", term.Plain(d.Agent))
	fmt.Fprintf(w, "Started\t%s\n", term.Minute(d.StartedAt))
	fmt.Fprintf(w, "Turns\t%s\n", term.Number(d.Turns))
	fmt.Fprintf(w, "Tool calls\t%s\t%s failed\n", term.Number(d.ToolCalls), term.Number(d.ToolErrors))
	fmt.Fprintf(w, "Cost\t%s\n", term.Dollars(d.CostUSD))
	fmt.Fprintf(w, "Skills\t%s\n", term.Plain(activated(d.Session)))
	fmt.Fprintf(w, "Grade\t%s\n", gradeOf(d.Session))
	for _, g := range d.Grades {
		// Print a grade and what it rests on.
		by := term.BasisWord(&g.Basis)
		if g.GradedBy != nil {
			by += ", " + term.Plain(*g.GradedBy)
		}
		fmt.Fprintf(w, "  %s\t%s\tby %s\t%s\n", term.Plain(g.Skill), term.Percent(&g.PassRate), by, term.Cell(orEmpty(g.Reason)))
		for _, e := range g.Evidence {
			verdict := map[bool]string{true: "passed", false: "failed"}[e.Passed]
			fmt.Fprintf(w, "    %s\t%s\t%s\n", verdict, term.Cell(e.Expectation), term.Cell(orEmpty(e.Quotation)))
		}
	}
	fmt.Fprintln(w)
	PrintEvents(w, d)
}

// PrintEvents prints the timeline of a session. Times are UTC. Trials of eval runs are
// printed with it, too.
func PrintEvents(w io.Writer, d client.SessionDetail) {
	fmt.Fprintln(w, "TIME\tEVENT\tNAME\tTOOK\tTOKENS\tCOST\tTEXT")
	for _, e := range d.Events {
		name := term.Cell(e.Name)
		if e.OK != nil && !*e.OK {
			name += " (failed)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", time.Time(e.At).UTC().Format(time.TimeOnly), e.Kind, name,
			took(e.DurationMS),
			term.Number(e.Tokens), term.Dollars(e.CostUSD), term.Cell(orEmpty(e.Text)))
	}
	if d.Truncated {
		fmt.Fprintln(w, "There were more events than are kept.")
	}
}

// took formats a duration in milliseconds; an unknown one (nil) is a dash. As Go
// formats durations, e.g. "1.234s".
func took(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return (time.Duration(*ms) * time.Millisecond).String()
}

// orEmpty returns the text, or "" for nil.
func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// sessionCase has the fields of a new test case. The server fills in those that are
// empty.
type sessionCase struct {
	server.Flags     `embed:""`
	ID               string `arg:"" help:"Id of the session, as the agent calls it."`
	Skill            string `env:"-" placeholder:"NAME" help:"Skill to test; the one that was activated when empty."`
	Source           string `env:"-" placeholder:"SOURCE" help:"Cloud source of the skill (label or id); without a suite the case becomes a draft of it."`
	Suite            string `env:"-" xor:"suite" placeholder:"SUITE" help:"Suite to add the case to (name or id); the newest of the skill when empty, or else a new one with its name."`
	NewSuite         string `env:"-" xor:"suite" placeholder:"NAME" help:"Create a suite with this name for the case."`
	Query            string `env:"-" placeholder:"TEXT" help:"What was asked; the first prompt when empty, if the server keeps it."`
	ShouldNotTrigger bool   `env:"-" help:"Expect that the skill does not trigger."`
}

// Run creates a test case from a session: what was asked, and what the skill should do.
func (c *sessionCase) Run(ctx context.Context, p *term.Program) error {
	// Without an expectation the case should trigger.
	in := api.NewCase{Skill: c.Skill, Query: c.Query}
	if c.ShouldNotTrigger {
		in.Expectation = "should_not_trigger"
	}
	if c.NewSuite != "" {
		in.NewSuite = &api.NamedSuite{Name: c.NewSuite}
	}
	return c.WithSession(p, func(s *server.Session) error {
		var err error
		if in.SourceID, err = s.SourceID(ctx, c.Source); err != nil {
			return err
		}
		if c.Suite != "" {
			if in.SuiteID, err = s.SuiteID(ctx, c.Suite); err != nil {
				return err
			}
		}
		made, err := s.CreateCase(ctx, c.ID, in)
		if err != nil {
			return err
		}
		return p.Print(made, func(w io.Writer) {
			to := "suite " + orEmpty(made.SuiteID)
			if made.SuiteID == nil {
				to = "the drafts of source " + orEmpty(made.Case.SourceID)
			}
			fmt.Fprintf(w, "Added a case of %s to %s: %s\n", term.Plain(made.Skill), to, term.Cell(made.Case.Query))
		})
	})
}

// gradeCommand grades a session for one skill.
type gradeCommand struct {
	server.Flags `embed:""`
	Session      string `arg:"" help:"Id of the session, as the agent calls it."`
	Verdict      string `arg:"" enum:"pass,fail" help:"pass or fail."`
	Skill        string `env:"-" placeholder:"NAME" help:"The skill that the verdict is about; by default the one that the session used."`
	Reason       string `env:"-" placeholder:"TEXT" help:"Reason; it is shown with the grade."`
}

// Run grades a session. A person's grade outranks all others, also that of the judge.
func (c *gradeCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		skill, err := c.skill(ctx, s)
		if err != nil {
			return err
		}
		// A second grade of the same person replaces the first.
		g, err := s.GradeSession(ctx, c.Session, client.Verdict{Skill: skill, Verdict: c.Verdict, Reason: c.Reason})
		if err != nil {
			return err
		}
		return p.Print(g, func(w io.Writer) {
			fmt.Fprintf(w, "Graded %s in session %s: %s.\n", term.Plain(g.Skill), term.Plain(c.Session), c.Verdict)
		})
	})
}

// skill returns the skill that the verdict is about: --skill, or the only one that the
// session used. With several skills a guess could grade the wrong one.
func (c *gradeCommand) skill(ctx context.Context, s *server.Session) (string, error) {
	if c.Skill != "" {
		return c.Skill, nil
	}
	detail, err := s.Session(ctx, c.Session)
	if err != nil {
		return "", err
	}
	var used []string
	for _, k := range detail.Skills {
		if k.Activated {
			used = append(used, k.Name)
		}
	}
	switch len(used) {
	case 0:
		return "", fault.Invalid("skill", "the session used no skill: name the one that the verdict is about with --skill")
	case 1:
		return used[0], nil
	}
	return "", fault.Invalid("skill", "the session used %s: say with --skill which one the verdict is about",
		strings.Join(used, ", "))
}
