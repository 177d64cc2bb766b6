package quality

import (
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// improveCommand has the flags of `whetstone eval improve`.
type improveCommand struct {
	server.Flags `embed:""`
	Suite        string  `arg:"" names:"suites" help:"Name or id of the suite."`
	Source       string  `env:"-" placeholder:"SOURCE" xor:"subject" help:"Improve the newest snapshot of this cloud source (label or id)."`
	Entry        string  `env:"-" placeholder:"NAME" xor:"subject" help:"Improve this entry of the registry (name or id)."`
	Target       string  `env:"-" enum:"description,body,both" default:"description" help:"What may change: description, body or both."`
	MaxCost      string  `env:"-" placeholder:"USD" help:"Cost limit of the run in US dollars."`
	MaxCalls     *int64  `env:"-" placeholder:"N" help:"Maximum number of requests to models."`
	Iterations   int     `env:"-" default:"3" help:"How many candidates to try, at most 10."`
	Holdout      float64 `env:"-" default:"0.4" help:"Share of the cases to hold out, 0.1 to 0.9."`
	Yes          bool    `env:"-" help:"Start without asking."`
	NoWait       bool    `env:"-" help:"Do not wait for the result. By default the command waits, and exits with 1 unless a better text was found."`
}

// Help is shown below the description of the command.
func (improveCommand) Help() string {
	return "Exit codes: 0 a better text was found (with --no-wait: the run was started); 1 none was found, or the command " +
		"failed; 2 a flag is not valid."
}

// newRun returns the run that the flags describe. Suite and subject are missing: they
// are still names, and only the server knows their ids.
func (c *improveCommand) newRun() (n api.NewImproveRun, err error) {
	// The API takes 0 for its default, so a 0 from the user would be ignored.
	if c.Iterations < 1 || c.Holdout <= 0 {
		return n, fault.Invalid("iterations", "--iterations and --holdout must be above 0")
	}
	n = api.NewImproveRun{Target: c.Target, MaxIterations: c.Iterations, Holdout: c.Holdout, MaxCalls: c.MaxCalls}
	return n, readLimit("max-cost", c.MaxCost, &n.MaxCostUSD)
}

// Run starts an improve run, after a person has confirmed its estimate, and follows it
// to its end unless --no-wait is given.
func (c *improveCommand) Run(ctx context.Context, p *term.Program) error {
	n, err := c.newRun()
	if err != nil {
		return err
	}
	return c.WithSession(p, func(s *server.Session) error {
		if n.SuiteID, err = s.SuiteID(ctx, c.Suite); err != nil {
			return err
		}
		subject, err := s.EvalSubject(ctx, c.Source, c.Entry, "")
		if err != nil {
			return err
		}
		n.SourceID, n.EntryID = subject.SourceID, subject.EntryID
		if err := c.confirm(ctx, p, s, n); err != nil {
			return err
		}
		run, err := s.StartImproveRun(ctx, n)
		if err != nil {
			return err
		}
		if c.NoWait {
			return p.Print(run, func(w io.Writer) {
				fmt.Fprintf(w, "Started the improve run %s; `whetstone eval watch %s` follows it.\n%s\n", run.ID, run.ID,
					s.Page("improve-runs", run.ID))
			})
		}
		return followImprove(ctx, p, s, run.ID)
	})
}

// confirm shows a person at the terminal what the run would need, and asks. Scripts are
// not asked.
func (c *improveCommand) confirm(ctx context.Context, p *term.Program, s *server.Session, n api.NewImproveRun) error {
	if c.Yes || !p.Interactive || p.JSON {
		return nil
	}
	e, err := s.EstimateImproveRun(ctx, n)
	if err != nil {
		return err
	}
	cost := "a cost that is not known, since the model has no price"
	if e.USD != nil {
		cost = "about " + term.Dollars(e.USD)
	}
	question := fmt.Sprintf("At most %s, %s (%d tokens in, %d out): %s. Start?", term.Count(e.Trials, "trial"),
		term.Count(int(e.Calls), "request"), e.InputTokens, e.OutputTokens, cost)
	if !p.Confirm(ctx, question) {
		return fault.New(fault.Conflict, "Nothing was started")
	}
	return nil
}

// followImprove waits for the end of an improve run, with progress on a terminal, and
// prints its result. It fails unless there is a winner. Ctrl-C leaves the run on the
// server.
func followImprove(ctx context.Context, p *term.Program, s *server.Session, id string) error {
	progress := p.Progress()
	run, err := s.WatchImproveRun(ctx, id, func(r api.ImproveRun) {
		round := "scoring the current version"
		if n := len(r.Iterations); n > 0 {
			round = fmt.Sprintf("candidate %d of at most %d", n, r.MaxIterations)
		}
		progress.Show("Improving  %d of %s, %s", r.Progress.Done, term.Count(r.Progress.Total, "trial"), round)
	})
	progress.Clear()
	if err != nil && ctx.Err() != nil {
		return p.GoesOn("improve run", id)
	}
	if err != nil {
		return err
	}
	err = p.Print(run, func(w io.Writer) {
		printImprove(w, run)
		fmt.Fprintf(w, "%s\n", s.Page("improve-runs", run.ID))
	})
	if err != nil {
		return err
	}
	if run.Winner == nil {
		return term.ErrPrinted
	}
	return nil
}

// printImprove prints the candidates of an improve run with their scores, its costs,
// and the proof of the winner.
func printImprove(w io.Writer, run api.ImproveRun) {
	fmt.Fprintln(w, "CANDIDATE\tTRAIN\tSELECTION\tERRORS\tWHY")
	fmt.Fprintf(w, "current\t%s\t%s\t%d\t\n", improveScore(run.Current.Train), improveScore(run.Current.Holdout),
		run.Current.Errors)
	for _, it := range run.Iterations {
		why := it.Reason
		if it.Problem != nil {
			why = *it.Problem
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\n", it.N, improveScore(it.Train), improveScore(it.Holdout), it.Errors, term.Cell(why))
	}
	fmt.Fprintf(w, "\nImprove run\t%s: %s\n", run.ID, run.Status)
	if run.StoppedBy != nil {
		fmt.Fprintf(w, "Stopped by\t%s\n", term.Plain(*run.StoppedBy))
	}
	if run.Error != nil {
		fmt.Fprintf(w, "Why\t%s\n", term.Plain(*run.Error))
	}
	fmt.Fprintf(w, "Cases\t%s\n", splits(run))
	fmt.Fprintf(w, "Judge\t%s\n", term.Plain(run.Judge.API+" "+run.Judge.Model))
	if run.Cost != nil {
		fmt.Fprintf(w, "Cost\t%s, %s\n", term.Dollars(run.Cost.USD), term.Count(int(run.Cost.Requests), "request"))
	}
	if p := run.Proof; p != nil {
		fmt.Fprintf(w, "Proof\t%s\n", proofText(api.ProposalProof{
			Cases: p.Cases, Current: p.Current, Winner: p.Winner, Better: p.Better, Worse: p.Worse, Interval: &p.Interval,
		}))
	}
	// With the target body the description does not change.
	if run.Target != "body" {
		fmt.Fprintf(w, "Current\t%s\n", term.Plain(run.Current.Description))
	}
	if run.Winner != nil && run.Winner.Description != run.Current.Description {
		fmt.Fprintf(w, "Better\t%s\n", term.Plain(run.Winner.Description))
	}
	if run.ProposalID != nil {
		fmt.Fprintf(w, "\n`whetstone proposal show %s` shows the change; `whetstone proposal apply %s` publishes it.\n",
			*run.ProposalID, *run.ProposalID)
	}
}

// splits formats how the cases were divided. Runs of older servers have two parts
// instead of three.
func splits(run api.ImproveRun) string {
	leftOut := term.Count(run.Cases.LeftOut, "case") + " left out"
	if run.Splits == (api.ImproveSplits{}) {
		return fmt.Sprintf("%d to write from, %d held out; %s", run.Cases.Train, run.Cases.Holdout, leftOut)
	}
	return fmt.Sprintf("%d to write from, %d to choose by, %d to prove on; %s", run.Splits.Train, run.Splits.Selection,
		run.Splits.Proof, leftOut)
}

// proofText formats the proof, e.g. "90% instead of 60% of the trials pass on 10 cases
// that it was neither written from nor chosen by: better on 4, worse on 1 (95% interval
// +2 to
func proofText(p api.ProposalProof) string {
	text := fmt.Sprintf("%s instead of %s of the trials pass on %s that it was neither written from nor chosen by: better "+
		"on %d, worse on %d", term.Percent(&p.Winner), term.Percent(&p.Current), term.Count(p.Cases, "case"), p.Better, p.Worse)
	if p.Interval != nil {
		text += fmt.Sprintf(" (95%% interval %+.0f to %+.0f points)", 100*p.Interval[0], 100*p.Interval[1])
	}
	return text
}

// improveScore formats how many cases a candidate passed, e.g. "4 of 5 (80%)". A
// candidate that was not scored (nil) is a dash.
func improveScore(s *api.ImproveScore) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d (%s)", s.Passed, s.Cases, term.Percent(s.Rate))
}
