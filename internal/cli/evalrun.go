package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

type evalRunCommand struct {
	remote   `embed:""`
	suiteArg `embed:""`
	Source   string `env:"-" placeholder:"ID" xor:"subject" help:"Run against the newest snapshot of this cloud source."`
	Entry    string `env:"-" placeholder:"NAME" xor:"subject" help:"Run against this entry of the registry (name or id)."`
	Version  string `env:"-" help:"Version of the entry; its current one when empty."`
	Trials   int    `env:"-" default:"1" help:"How often to try each case, at most 30."`
	Baseline string `env:"-" enum:"none,no_skill,previous" default:"none" help:"Compare with none, no_skill or the previous version."`
	Wait     bool   `env:"-" help:"Wait for the end and show the cases. The exit code is then 1 unless every case passed or was skipped."`
}

// Run starts a run, and follows it if asked to.
func (c *evalRunCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
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
			return p.follow(ctx, s, run.ID)
		}
		return p.print(run, func(w io.Writer) {
			fmt.Fprintf(w, "Started the run %s; `whetstone eval watch %s` follows it.\n", run.ID, run.ID)
		})
	})
}

// evalSubject names a skill by a source or by an entry, of which one must be
// given.
func (s *session) evalSubject(ctx context.Context, source, entry, version string) (client.EvalSubject, error) {
	if source != "" {
		return client.EvalSubject{SourceID: source}, nil
	}
	if entry == "" {
		return client.EvalSubject{}, fault.Invalid("entry", "say what to test with --entry or --source")
	}
	if entryID.MatchString(entry) {
		return client.EvalSubject{EntryID: entry, Version: version}, nil
	}
	found, err := s.EntryByName(ctx, entry)
	return client.EvalSubject{EntryID: found.ID, Version: version}, err
}

type evalWatchCommand struct {
	remote `embed:""`
	RunID  string `arg:"" name:"run" help:"Id of the run, or of an improve run."`
}

// Run follows a run or an improve run. Its exit code is that of the command
// that starts one and waits.
func (c *evalWatchCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		err := p.follow(ctx, s, c.RunID)
		if isMissing(err) {
			return p.followImprove(ctx, s, c.RunID)
		}
		return err
	})
}

// isMissing reports whether the server has no such thing.
func isMissing(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Status == http.StatusNotFound
}

type evalCancelCommand struct {
	remote `embed:""`
	RunID  string `arg:"" name:"run" help:"Id of the run, or of an improve run."`
}

// Run ends a run or an improve run early.
func (c *evalCancelCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		run, err := s.CancelEvalRun(ctx, c.RunID)
		if isMissing(err) {
			return c.cancelImprove(ctx, p, s)
		}
		if err != nil {
			return err
		}
		return p.print(run, func(w io.Writer) { fmt.Fprintf(w, "The run %s is %s.\n", run.ID, run.Status) })
	})
}

// follow shows how far a run has come, on a terminal, and its cases when it is
// over.
func (p *Program) follow(ctx context.Context, s *session, id string) error {
	line := io.Discard
	if p.Interactive && !p.json {
		line = p.Stderr
	}
	bad := 0
	run, err := s.WatchEvalRun(ctx, id, func(e client.EvalEvent) {
		if e.Case != nil && !good(e.Case.Verdict) {
			bad++
		}
		if e.Progress != nil {
			fmt.Fprintf(line, "\rRunning  %d of %s, %s not passed\x1b[K", e.Progress.Done, count(e.Progress.Total, "trial"), count(bad, "case"))
		}
	})
	fmt.Fprint(line, "\r\x1b[K")
	if err != nil {
		return err
	}
	if err := p.print(run, func(w io.Writer) { printRun(w, run) }); err != nil {
		return err
	}
	if !flawless(run) {
		return errSaid
	}
	return nil
}

// good reports whether a verdict is nothing to look into.
func good(verdict *string) bool {
	return verdict != nil && (*verdict == "pass" || *verdict == "skipped")
}

func flawless(run client.EvalRun) bool {
	for _, c := range run.Cases {
		if !good(c.Verdict) {
			return false
		}
	}
	return run.Status == "succeeded"
}

func printRun(w io.Writer, run client.EvalRun) {
	fmt.Fprintln(w, "CASE\tKIND\tVERDICT\tBASELINE\tWHY")
	for _, c := range run.Cases {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", shorten(cmp.Or(c.Name, c.ID)), c.CaseKind, orDash(c.Verdict), orDash(c.BaselineVerdict), why(c))
	}
	fmt.Fprintf(w, "\nRun\t%s: %s\n", run.ID, run.Status)
	if run.Error != nil {
		fmt.Fprintf(w, "Error\t%s\n", plain(*run.Error))
	}
	t := run.Totals
	fmt.Fprintf(w, "Cases\t%d passed, %d failed, %d errors, %d skipped\n", t.Passed, t.Failed, t.Errors, t.Skipped)
	fmt.Fprintf(w, "Pass rate\t%s\n", rate(run))
	if unreliable(run) {
		fmt.Fprintf(w, "\tmore than a fifth of the trials ended as error: the rate says little\n")
	}
	if run.PassK != nil && run.Trials > 1 {
		fmt.Fprintf(w, "Every trial passed\t%s of the cases\n", percent(run.PassK))
	}
	if b := run.BaselineResult; b != nil {
		fmt.Fprintf(w, "Baseline\t%s: %s, so the skill changes it by %+.0f points (normalised gain %.2f)\n", run.Baseline, percent(&b.PassRate), 100*b.Delta, b.NormalizedGain)
	}
	if run.Judge != nil {
		fmt.Fprintf(w, "Judge\t%s\n", plain(run.Judge.API+" "+run.Judge.Model))
	}
}

func orDash(text *string) string {
	if text == nil {
		return "-"
	}
	return plain(*text)
}

// rate has the errors beside it: they are left out of it.
func rate(r client.EvalRun) string {
	text := rateOf(r.PassRate, r.PassRateInterval)
	if r.TrialErrors > 0 {
		text += ", " + count(r.TrialErrors, "error")
	}
	if unreliable(r) {
		text += ", UNRELIABLE"
	}
	return text
}

// unreliable asks for errors as well: a server of an older version says nothing.
func unreliable(r client.EvalRun) bool { return r.TrialErrors > 0 && !r.Reliable }

// rateOf has its interval in brackets: few cases say little.
func rateOf(rate *float64, interval *[2]float64) string {
	if rate == nil || interval == nil {
		return percent(rate)
	}
	return fmt.Sprintf("%s (%s to %s)", percent(rate), percent(&interval[0]), percent(&interval[1]))
}

// why says in a line why a case did not pass: in the words of the first trial
// with the skill that did not.
func why(c client.EvalCase) string {
	for _, t := range c.Trials {
		if t.Variant != "skill" || t.Verdict == "pass" {
			continue
		}
		if t.Error != nil {
			return shorten(*t.Error)
		}
		var evidence struct {
			Summary string `json:"summary"`
		}
		_ = json.Unmarshal(t.Evidence, &evidence) // of another form: nothing to say
		return shorten(evidence.Summary)
	}
	return ""
}
