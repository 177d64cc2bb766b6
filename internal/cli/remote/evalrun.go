package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

type evalRunCommand struct {
	serverFlags `embed:""`
	suiteArg    `embed:""`
	Source      string `env:"-" placeholder:"ID" xor:"subject" help:"Run against the newest snapshot of this cloud source."`
	Entry       string `env:"-" placeholder:"NAME" xor:"subject" help:"Run against this entry of the registry (name or id)."`
	Version     string `env:"-" help:"Version of the entry; its current one when empty."`
	Trials      int    `env:"-" default:"1" help:"How often to try each case, at most 30."`
	Baseline    string `env:"-" enum:"none,no_skill,previous" default:"none" help:"Compare with none, no_skill or the previous version."`
	Wait        bool   `env:"-" help:"Wait for the result and show the cases. The exit code is then 1 unless every case passed or was skipped."`
}

// Run starts a run, and follows it to its end with --wait.
func (c *evalRunCommand) Run(ctx context.Context, p *term.Program) error {
	return c.withSession(p, func(s *session) error {
		id, err := s.suiteID(ctx, c.Suite)
		if err != nil {
			return err
		}
		subject, err := s.evalSubject(ctx, c.Source, c.Entry, c.Version)
		if err != nil {
			return err
		}
		run, err := s.StartEvalRun(ctx, id, client.NewEvalRun{Subject: subject, Trials: c.Trials, Baseline: c.Baseline})
		if err != nil {
			return err
		}
		if c.Wait {
			return followRun(ctx, p, s, run.ID)
		}
		return p.Print(run, func(w io.Writer) {
			fmt.Fprintf(w, "Started the run %s; `whetstone eval watch %s` follows it.\n", run.ID, run.ID)
		})
	})
}

// evalSubject returns the skill that --source or --entry names. One of them is
// required.
func (s *session) evalSubject(ctx context.Context, source, entry, version string) (client.EvalSubject, error) {
	if source != "" {
		return client.EvalSubject{SourceID: source}, nil
	}
	if entry == "" {
		return client.EvalSubject{}, fault.Invalid("entry", "name what to test with --entry or --source")
	}
	if uuidPattern.MatchString(entry) {
		return client.EvalSubject{EntryID: entry, Version: version}, nil
	}
	found, err := s.EntryByName(ctx, entry)
	return client.EvalSubject{EntryID: found.ID, Version: version}, err
}

type evalWatchCommand struct {
	serverFlags `embed:""`
	RunID       string `arg:"" name:"run" help:"Id of the run, or of an improve run."`
}

// Run follows a run or an improve run; the API keeps them apart, an id does not.
// The exit code is the same as that of the command that starts one and waits.
func (c *evalWatchCommand) Run(ctx context.Context, p *term.Program) error {
	return c.withSession(p, func(s *session) error {
		err := followRun(ctx, p, s, c.RunID)
		if client.Status(err) == http.StatusNotFound {
			return followImprove(ctx, p, s, c.RunID)
		}
		return err
	})
}

type evalCancelCommand struct {
	serverFlags `embed:""`
	RunID       string `arg:"" name:"run" help:"Id of the run, or of an improve run."`
}

// Run cancels a run or an improve run.
func (c *evalCancelCommand) Run(ctx context.Context, p *term.Program) error {
	return c.withSession(p, func(s *session) error {
		run, err := s.CancelEvalRun(ctx, c.RunID)
		if client.Status(err) == http.StatusNotFound {
			run, err := s.CancelImproveRun(ctx, c.RunID)
			if err != nil {
				return err
			}
			return p.Print(run, func(w io.Writer) { fmt.Fprintf(w, "The improve run %s is %s.\n", run.ID, run.Status) })
		}
		if err != nil {
			return err
		}
		return p.Print(run, func(w io.Writer) { fmt.Fprintf(w, "The run %s is %s.\n", run.ID, run.Status) })
	})
}

// followRun waits for the end of a run, with progress on a terminal, and prints
// its cases. It fails unless every case passed or was skipped.
func followRun(ctx context.Context, p *term.Program, s *session, id string) error {
	progress := p.Progress()
	notPassed := 0
	run, err := s.WatchEvalRun(ctx, id, func(e client.EvalEvent) {
		if e.Case != nil && !passedOrSkipped(e.Case.Verdict) {
			notPassed++
		}
		if e.Progress != nil {
			progress.Show("Running  %d of %s, %s not passed", e.Progress.Done, term.Count(e.Progress.Total, "trial"),
				term.Count(notPassed, "case"))
		}
	})
	progress.Clear()
	if err != nil {
		return err
	}
	if err := p.Print(run, func(w io.Writer) { printRun(w, run) }); err != nil {
		return err
	}
	failed := slices.ContainsFunc(run.Cases, func(c client.EvalCase) bool { return !passedOrSkipped(c.Verdict) })
	if failed || run.Status != "succeeded" {
		return term.ErrPrinted
	}
	return nil
}

func passedOrSkipped(verdict *string) bool {
	return verdict != nil && (*verdict == "pass" || *verdict == "skipped")
}

func printRun(w io.Writer, run client.EvalRun) {
	fmt.Fprintln(w, "CASE\tKIND\tVERDICT\tBASELINE\tWHY")
	for _, c := range run.Cases {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", term.Cell(cmp.Or(c.Name, c.ID)), c.CaseKind, term.OrDash(c.Verdict),
			term.OrDash(c.BaselineVerdict), failureReason(c))
	}
	fmt.Fprintf(w, "\nRun\t%s: %s\n", run.ID, run.Status)
	if run.Error != nil {
		fmt.Fprintf(w, "Error\t%s\n", term.Plain(*run.Error))
	}
	t := run.Totals
	fmt.Fprintf(w, "Cases\t%d passed, %d failed, %d errors, %d skipped\n", t.Passed, t.Failed, t.Errors, t.Skipped)
	fmt.Fprintf(w, "Pass rate\t%s\n", runPassRate(run))
	if unreliable(run) {
		fmt.Fprintf(w, "\tmore than a fifth of the trials ended with an error, so the rate says little\n")
	}
	if run.PassK != nil && run.Trials > 1 {
		fmt.Fprintf(w, "Every trial passed\t%s of the cases\n", term.Percent(run.PassK))
	}
	if b := run.BaselineResult; b != nil {
		fmt.Fprintf(w, "Baseline\t%s: %s, so the skill changes it by %+.0f points (normalised gain %.2f)\n",
			run.Baseline, term.Percent(&b.PassRate), 100*b.Delta, b.NormalizedGain)
	}
	if run.Judge != nil {
		fmt.Fprintf(w, "Judge\t%s\n", term.Plain(run.Judge.API+" "+run.Judge.Model))
	}
	if c := run.Cost; c != nil && c.Requests > 0 {
		price := "price unknown"
		if c.USD != nil {
			price = fmt.Sprintf("%.4f USD", *c.USD)
		}
		input := c.Tokens.Input + c.Tokens.CacheRead + c.Tokens.CacheWrite
		fmt.Fprintf(w, "Cost\t%s: %d requests, %d tokens in, %d out\n", price, c.Requests, input, c.Tokens.Output)
	}
}

// runPassRate formats the pass rate with the number of trials that ended with an
// error, because they are not part of the rate.
func runPassRate(r client.EvalRun) string {
	text := term.Rate(r.PassRate, r.PassRateInterval)
	if r.TrialErrors > 0 {
		text += ", " + term.Count(r.TrialErrors, "error")
	}
	if unreliable(r) {
		text += ", UNRELIABLE"
	}
	return text
}

// unreliable also looks at the number of errors, because an older server does
// not send the field Reliable.
func unreliable(r client.EvalRun) bool { return r.TrialErrors > 0 && !r.Reliable }

// failureReason is one line on why a case did not pass, from the first trial
// with the skill that did not.
func failureReason(c client.EvalCase) string {
	for _, t := range c.Trials {
		if t.Variant != "skill" || t.Verdict == "pass" {
			continue
		}
		if t.Error != nil {
			return term.Cell(*t.Error)
		}
		var evidence struct {
			Summary string `json:"summary"`
		}
		_ = json.Unmarshal(t.Evidence, &evidence) // evidence of another shape has no summary
		return term.Cell(evidence.Summary)
	}
	return ""
}
