package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

type evalImproveCommand struct {
	remote     `embed:""`
	suiteArg   `embed:""`
	Source     string  `env:"-" placeholder:"ID" xor:"subject" help:"Improve the newest snapshot of this cloud source."`
	Entry      string  `env:"-" placeholder:"NAME" xor:"subject" help:"Improve this entry of the registry (name or id)."`
	Iterations int     `env:"-" default:"3" help:"How many descriptions to try, at most 10."`
	Holdout    float64 `env:"-" default:"0.4" help:"Share of the queries that only decide, 0.1 to 0.9."`
	NoWait     bool    `env:"-" help:"Do not wait for the end. Without it, the exit code is 1 unless a better description was found."`
}

// Run starts an improve run, and follows it unless told not to.
func (c *evalImproveCommand) Run(ctx context.Context, p *Program) error {
	if c.Iterations < 1 || c.Holdout <= 0 { // 0 would mean the server's default
		return fault.Invalid("iterations", "--iterations and --holdout must be above 0")
	}
	return c.with(p, func(s *session) error {
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
			return p.print(run, func(w io.Writer) {
				fmt.Fprintf(w, "Started the improve run %s; `whetstone eval watch %s` follows it.\n", run.ID, run.ID)
			})
		}
		return p.followImprove(ctx, s, run.ID)
	})
}

// followImprove shows how far an improve run has come, on a terminal, and what
// it has found when it is over.
func (p *Program) followImprove(ctx context.Context, s *session, id string) error {
	line := io.Discard
	if p.Interactive && !p.json {
		line = p.Stderr
	}
	run, err := s.WatchImproveRun(ctx, id, func(r client.ImproveRun) {
		fmt.Fprintf(line, "\rImproving  %d of %s, %s tried\x1b[K", r.Progress.Done, count(r.Progress.Total, "trial"), count(len(r.Iterations), "description"))
	})
	fmt.Fprint(line, "\r\x1b[K")
	if err != nil {
		return err
	}
	if err := p.print(run, func(w io.Writer) { printImprove(w, run) }); err != nil {
		return err
	}
	if run.Winner == nil {
		return errSaid
	}
	return nil
}

func (c *evalCancelCommand) cancelImprove(ctx context.Context, p *Program, s *session) error {
	run, err := s.CancelImproveRun(ctx, c.RunID)
	if err != nil {
		return err
	}
	return p.print(run, func(w io.Writer) { fmt.Fprintf(w, "The improve run %s is %s.\n", run.ID, run.Status) })
}

func printImprove(w io.Writer, run client.ImproveRun) {
	fmt.Fprintln(w, "DESCRIPTION\tTRAIN\tHELD OUT\tERRORS\tWHY")
	fmt.Fprintf(w, "current\t%s\t%s\t%d\t\n", score(run.Current.Train), score(run.Current.Holdout), run.Current.Errors)
	for _, it := range run.Iterations {
		why := it.Reason
		if it.Problem != nil {
			why = *it.Problem
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\n", it.N, score(it.Train), score(it.Holdout), it.Errors, shorten(why))
	}
	fmt.Fprintf(w, "\nImprove run\t%s: %s\n", run.ID, run.Status)
	if run.Error != nil {
		fmt.Fprintf(w, "Error\t%s\n", plain(*run.Error))
	}
	fmt.Fprintf(w, "Queries\t%d to write from, %d held out; %s left out\n", run.Cases.Train, run.Cases.Holdout, count(run.Cases.LeftOut, "case"))
	fmt.Fprintf(w, "Judge\t%s\n", plain(run.Judge.API+" "+run.Judge.Model))
	fmt.Fprintf(w, "Current\t%s\n", plain(run.Current.Description))
	if run.Winner == nil {
		return
	}
	fmt.Fprintf(w, "Better\t%s\n", plain(run.Winner.Description))
	fmt.Fprintf(w, "Held out\t%s, before %s\n", rateOf(run.Winner.PassRate, run.Winner.PassRateInterval), score(run.Current.Holdout))
	if run.ProposalID != nil {
		fmt.Fprintf(w, "Proposal\t%s\n", *run.ProposalID)
	}
}

// score is how many queries were right.
func score(s *client.ImproveScore) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d (%s)", s.Passed, s.Cases, percent(s.Rate))
}
