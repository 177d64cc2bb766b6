package quality

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/capture"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// evalTrialCommand selects a trial. The case is found by what `eval watch` prints of
// it.
type evalTrialCommand struct {
	server.Flags `embed:""`
	RunID        string `arg:"" name:"run" names:"suites" help:"Id of the run, or the suite of the newest run."`
	CaseID       string `arg:"" name:"case" help:"Id, name or title of the case."`
	Arm          string `env:"-" enum:"skill,no_skill,previous" default:"skill" help:"skill, no_skill or previous."`
	Trial        int    `env:"-" default:"1" placeholder:"N" help:"Number of the trial."`
}

// Run prints one trial of a case: what was asked, its timeline, and the files that it
// changed.
func (c *evalTrialCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.RunID(ctx, c.RunID)
		if err != nil {
			return err
		}
		run, err := s.EvalRun(ctx, id)
		if err != nil {
			return err
		}
		// Titles may repeat; then the command asks for the id.
		of, err := server.Pick("case of the run", "eval watch "+id, c.CaseID, run.Cases,
			func(one api.EvalCase) (string, []string) {
				return one.ID, []string{one.Name, one.Title}
			})
		if err != nil {
			return err
		}
		trial, err := s.EvalTrial(ctx, id, of, c.Arm, c.Trial)
		if err != nil {
			return err
		}
		return p.Print(trial, func(w io.Writer) { printTrial(w, trial) })
	})
}

// printTrial prints a trial. Its text comes from a model, so all of it is stripped of
// control characters.
func printTrial(w io.Writer, t api.EvalTrialDetail) {
	fmt.Fprintf(w, "Trial\t%d of %s, %s\n", t.N, term.Plain(t.CaseID), t.Variant)
	fmt.Fprintf(w, "Verdict\t%s\t%s\n", t.Verdict, evidenceSummary(t.EvalTrial))
	if t.Error != nil {
		fmt.Fprintf(w, "Error\t%s\n", term.Cell(*t.Error))
	}
	if t.Asked != nil {
		fmt.Fprintf(w, "Asked\t%s\n", term.Cell(*t.Asked))
	}
	if t.Turns != nil && t.ToolCalls != nil {
		fmt.Fprintf(w, "Agent\t%s\t%d turns, %d tool calls, %d failed\n", term.Plain(t.Session.Agent), *t.Turns, *t.ToolCalls,
			t.Session.ToolErrors)
	}
	fmt.Fprintf(w, "Cost\t%s\n", term.Dollars(t.CostUSD))
	if t.SessionID != nil {
		fmt.Fprintf(w, "Session\t%s\n", *t.SessionID)
	}
	fmt.Fprintln(w)
	// As `session show` does: a trial is a session of an agent.
	capture.PrintEvents(w, t.Session)
	if len(t.Files) > 0 {
		fmt.Fprintln(w, "\nFILE\tCHANGE\tBYTES")
	}
	for _, f := range t.Files {
		fmt.Fprintf(w, "%s\t%s\t%d\n", term.Cell(f.Path), f.Change, f.Size)
	}
	if t.FilesTruncated {
		fmt.Fprintln(w, "There may be more files.")
	}
	// Line by line: Plain makes a space of a line break, too.
	if output := strings.TrimSpace(t.OutputTail); output != "" {
		fmt.Fprintln(w, "\nOUTPUT")
		for line := range strings.Lines(output) {
			fmt.Fprintln(w, term.Plain(strings.TrimRight(line, "\n")))
		}
	}
}
