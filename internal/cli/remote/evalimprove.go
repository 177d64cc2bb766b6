package remote

import (
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

type evalImproveCommand struct {
	serverFlags `embed:""`
	suiteArg    `embed:""`
	Source      string  `env:"-" placeholder:"ID" xor:"subject" help:"Improve the newest snapshot of this cloud source."`
	Entry       string  `env:"-" placeholder:"NAME" xor:"subject" help:"Improve this entry of the registry (name or id)."`
	Iterations  int     `env:"-" default:"3" help:"How many descriptions to try, at most 10."`
	Holdout     float64 `env:"-" default:"0.4" help:"Share of the queries that are held out to decide, 0.1 to 0.9."`
	NoWait      bool    `env:"-" help:"Do not wait for the result. Without it, the exit code is 1 unless a better description was found."`
}

// Run starts an improve run, and follows it to its end unless --no-wait is given.
func (c *evalImproveCommand) Run(ctx context.Context, p *term.Program) error {
	if c.Iterations < 1 || c.Holdout <= 0 { // the API takes 0 for its default
		return fault.Invalid("iterations", "--iterations and --holdout must be above 0")
	}
	return c.withSession(p, func(s *session) error {
		id, err := s.suiteID(ctx, c.Suite)
		if err != nil {
			return err
		}
		subject, err := s.evalSubject(ctx, c.Source, c.Entry, "")
		if err != nil {
			return err
		}
		run, err := s.StartImproveRun(ctx, client.NewImproveRun{
			SourceID: subject.SourceID, EntryID: subject.EntryID, SuiteID: id, MaxIterations: c.Iterations, Holdout: c.Holdout,
		})
		if err != nil {
			return err
		}
		if c.NoWait {
			return p.Print(run, func(w io.Writer) {
				fmt.Fprintf(w, "Started the improve run %s; `whetstone eval watch %s` follows it.\n", run.ID, run.ID)
			})
		}
		return followImprove(ctx, p, s, run.ID)
	})
}

// followImprove waits for the end of an improve run, with progress on a
// terminal, and prints its result.
func followImprove(ctx context.Context, p *term.Program, s *session, id string) error {
	progress := p.Progress()
	run, err := s.WatchImproveRun(ctx, id, func(r client.ImproveRun) {
		progress.Show("Improving  %d of %s, %s tried", r.Progress.Done, term.Count(r.Progress.Total, "trial"),
			term.Count(len(r.Iterations), "description"))
	})
	progress.Clear()
	if err != nil {
		return err
	}
	if err := p.Print(run, func(w io.Writer) { printImprove(w, run) }); err != nil {
		return err
	}
	if run.Winner == nil {
		return term.ErrPrinted
	}
	return nil
}

func printImprove(w io.Writer, run client.ImproveRun) {
	fmt.Fprintln(w, "DESCRIPTION\tTRAIN\tHELD OUT\tERRORS\tWHY")
	fmt.Fprintf(w, "current\t%s\t%s\t%d\t\n", score(run.Current.Train), score(run.Current.Holdout), run.Current.Errors)
	for _, it := range run.Iterations {
		why := it.Reason
		if it.Problem != nil {
			why = *it.Problem
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\n", it.N, score(it.Train), score(it.Holdout), it.Errors, term.Cell(why))
	}
	fmt.Fprintf(w, "\nImprove run\t%s: %s\n", run.ID, run.Status)
	if run.Error != nil {
		fmt.Fprintf(w, "Error\t%s\n", term.Plain(*run.Error))
	}
	fmt.Fprintf(w, "Queries\t%d to write from, %d held out; %s left out\n", run.Cases.Train, run.Cases.Holdout,
		term.Count(run.Cases.LeftOut, "case"))
	fmt.Fprintf(w, "Judge\t%s\n", term.Plain(run.Judge.API+" "+run.Judge.Model))
	fmt.Fprintf(w, "Current\t%s\n", term.Plain(run.Current.Description))
	if run.Winner == nil {
		return
	}
	fmt.Fprintf(w, "Better\t%s\n", term.Plain(run.Winner.Description))
	fmt.Fprintf(w, "Held out\t%s, before %s\n", term.Rate(run.Winner.PassRate, run.Winner.PassRateInterval),
		score(run.Current.Holdout))
	if run.ProposalID != nil {
		fmt.Fprintf(w, "Proposal\t%s\n", *run.ProposalID)
	}
}

// score formats how many queries a description answered correctly.
func score(s *client.ImproveScore) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d (%s)", s.Passed, s.Cases, term.Percent(s.Rate))
}
