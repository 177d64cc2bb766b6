package quality

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// evalRunCommand has the fields of a run.
type evalRunCommand struct {
	server.Flags `embed:""`
	suiteArg     `embed:""`
	Source       string `env:"-" placeholder:"SOURCE" xor:"subject" help:"Run against the newest snapshot of this cloud source (label or id)."`
	Entry        string `env:"-" placeholder:"NAME" xor:"subject" help:"Run against this entry of the registry (name or id)."`
	Version      string `env:"-" help:"Version of the entry; its current one when empty."`
	Trials       int    `env:"-" default:"1" help:"How often to try each case, at most 30."`
	Baseline     string `env:"-" enum:"none,no_skill,previous" default:"none" help:"Compare with none, no_skill or the previous version."`
	Catalog      string `env:"-" enum:",full,claude-code,codex" default:"" placeholder:"NAME" help:"Ask the trigger queries on all skills of the registry: full, or as claude-code or codex truncate the descriptions. With an agent's name, a second run on full is started to compare with."`
	Window       int64  `name:"context-window" env:"-" placeholder:"TOKENS" help:"Context window that the catalog's budget is computed from; by default 200000 for claude-code and 272000 for codex."`
	Agent        string `env:"-" placeholder:"NAME" help:"Coding agent that works on the cases, e.g. claude-code."`
	Model        string `env:"-" placeholder:"NAME" help:"Model that the agent asks; its first one when empty."`
	MaxTurns     int    `env:"-" placeholder:"N" help:"Maximum number of model turns per trial."`
	MaxCost      string `name:"max-cost-usd" env:"-" placeholder:"USD" help:"Cost limit of the run in US dollars."`
	Estimate     bool   `env:"-" help:"Only estimate the cost, by the last trials of the agent."`
	Wait         bool   `env:"-" help:"Wait for the result and show the cases. The exit code is then 1 unless every case passed or was skipped."`
}

// Run starts a run. With --wait it follows the run to its end.
func (c *evalRunCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.SuiteID(ctx, c.Suite)
		if err != nil {
			return err
		}
		subject, err := s.EvalSubject(ctx, c.Source, c.Entry, c.Version)
		if err != nil {
			return err
		}
		n := api.NewEvalRun{
			Subject: subject, Trials: c.Trials, Baseline: c.Baseline, Catalog: c.Catalog,
			ContextWindow: c.Window,
		}
		if err := c.setAgent(&n); err != nil {
			return err
		}
		if c.Estimate {
			return printEstimate(ctx, p, s, id, n)
		}
		run, err := s.StartEvalRun(ctx, id, n)
		if err != nil {
			return err
		}
		// A run on a truncated catalog means little without one to compare it with.
		if c.Catalog != "" && c.Catalog != "full" {
			return c.compareCatalog(ctx, p, s, run, n)
		}
		if c.Wait {
			return followRun(ctx, p, s, run.ID)
		}
		return p.Print(run, func(w io.Writer) {
			fmt.Fprintf(w, "Started the run %s; `whetstone eval watch %s` follows it.\n%s\n", run.ID, run.ID,
				s.Page("runs", run.ID))
		})
	})
}

// setAgent sets the agent and the spending limit of a run from the flags.
func (c *evalRunCommand) setAgent(n *api.NewEvalRun) error {
	if c.Agent == "" && (c.Model != "" || c.MaxTurns != 0) {
		return fault.Invalid("agent", "--model and --max-turns are an agent's: name it with --agent")
	}
	if c.Agent != "" {
		n.Agent = &api.EvalAgent{Name: c.Agent, Model: c.Model, MaxTurns: c.MaxTurns}
	}
	return readLimit("max-cost-usd", c.MaxCost, &n.MaxCostUSD)
}

// printEstimate prints the estimated cost of a run, without starting it.
func printEstimate(ctx context.Context, p *term.Program, s *server.Session, suiteID string, n api.NewEvalRun) error {
	e, err := s.EstimateEvalRun(ctx, suiteID, n)
	if err != nil {
		return err
	}
	return p.Print(e, func(w io.Writer) {
		cost := "a cost that is not known, since this agent was not used before"
		if e.EstimateUSD != nil {
			cost = dollars(e.EstimateUSD)
		}
		fmt.Fprintf(w, "%s with an agent: %s.\n", term.Count(int(e.Trials), "trial"), cost)
	})
}

// dollars formats an amount with four digits: a single trial often costs less than a
// cent. An unknown one (nil) is not zero.
func dollars(usd *float64) string {
	if usd == nil {
		return "price unknown"
	}
	return fmt.Sprintf("%.4f USD", *usd)
}

// evalWatchCommand follows a run.
type evalWatchCommand struct {
	server.Flags `embed:""`
	RunID        string `arg:"" name:"run" names:"suites" help:"Id of the run or improve run, or the suite of the newest run."`
}

// Run follows a run or an improve run: an id doesn't tell which, so a run that is not
// found is tried as an improve run. The exit code is the same as that of the command
// that starts one and waits.
func (c *evalWatchCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.RunID(ctx, c.RunID)
		if err != nil {
			return err
		}
		err = followRun(ctx, p, s, id)
		// Ids of both kinds look alike.
		if client.Status(err) == http.StatusNotFound {
			return followImprove(ctx, p, s, id)
		}
		return err
	})
}

// evalCancelCommand cancels a run.
type evalCancelCommand struct {
	server.Flags `embed:""`
	RunID        string `arg:"" name:"run" names:"suites" help:"Id of the run or improve run, or the suite of the newest run."`
}

// Run cancels a run or an improve run.
func (c *evalCancelCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.RunID(ctx, c.RunID)
		if err != nil {
			return err
		}
		run, err := s.CancelEvalRun(ctx, id)
		if client.Status(err) == http.StatusNotFound {
			run, err := s.CancelImproveRun(ctx, id)
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

// followRun waits for the end of a run, with progress on a terminal, and prints its
// cases. It fails unless every case passed or was skipped. Ctrl-C leaves the run on the
// server.
func followRun(ctx context.Context, p *term.Program, s *server.Session, id string) error {
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
	// Interrupted by the person: the run itself goes on.
	if err != nil && ctx.Err() != nil {
		return p.GoesOn("run", id)
	}
	if err != nil {
		return err
	}
	if err := p.Print(run, func(w io.Writer) { printRun(w, run, s.Page("runs", run.ID)) }); err != nil {
		return err
	}
	return unlessPassed(run)
}

// unlessPassed returns the exit code 1, unless the run succeeded and every case passed
// or was skipped.
func unlessPassed(run api.EvalReport) error {
	failed := slices.ContainsFunc(run.Cases, func(c api.EvalCase) bool { return !passedOrSkipped(c.Verdict) })
	if failed || run.Status != "succeeded" {
		return term.ErrPrinted
	}
	return nil
}

// passedOrSkipped reports whether a verdict does not fail a run; a missing one (nil)
// does.
func passedOrSkipped(verdict *string) bool {
	return verdict != nil && (*verdict == "pass" || *verdict == "skipped")
}

// printRun prints the cases of a run as a table, and its figures below. Costs have a
// column only if an agent worked on the cases. A line is left out if the server did
// not send its figure, e.g. an older one.
func printRun(w io.Writer, run api.EvalReport, page string) {
	costs := len(run.CostUSDByVariant) > 0
	heads := []string{"CASE", "KIND", "VERDICT", "BASELINE"}
	if costs {
		heads = append(heads, "COST")
	}
	fmt.Fprintln(w, strings.Join(append(heads, "WHY"), "\t"))
	for _, c := range run.Cases {
		row := []string{
			term.Cell(cmp.Or(c.Name, c.Title, c.ID)), c.CaseKind, term.OrDash(c.Verdict), term.OrDash(c.BaselineVerdict),
		}
		if costs {
			row = append(row, cmp.Or(costByVariant(c.CostUSDByVariant), "-"))
		}
		fmt.Fprintln(w, strings.Join(append(row, failureReason(c)), "\t"))
	}
	fmt.Fprintf(w, "\nRun\t%s: %s\n", run.ID, runStatus(run.EvalRun))
	if o := run.Imported; o != nil {
		fmt.Fprintf(w, "Made by\t%s for %s, elsewhere\n", term.Plain(o.Tool+" "+o.Version), dollars(&o.CostUSD))
	}
	if run.Error != nil {
		fmt.Fprintf(w, "Error\t%s\n", term.Plain(*run.Error))
	}
	t := run.Totals
	fmt.Fprintf(w, "Cases\t%d passed, %d failed, %d errors, %d skipped\n", t.Passed, t.Failed, t.Errors, t.Skipped)
	fmt.Fprintf(w, "Score\t%s\n", runScore(run.EvalRun))
	if unreliable(run.EvalRun) {
		fmt.Fprintf(w, "\tmore than a fifth of the trials ended with an error, so the score says little\n")
	}
	// The table has room for the beginning only, and such an error has to be mended.
	for _, c := range run.Cases {
		if i := slices.IndexFunc(c.Trials, func(t api.EvalTrial) bool { return t.Error != nil }); i >= 0 {
			fmt.Fprintf(w, "First error\t%s\n", term.Plain(*c.Trials[i].Error))
			break
		}
	}
	// Without a score, runScore has printed the pass rate already.
	if run.Score != nil {
		fmt.Fprintf(w, "Pass rate\t%s of the cases\n", term.Rate(run.PassRate, run.PassRateInterval))
	}
	if run.PassK != nil && run.Trials > 1 {
		fmt.Fprintf(w, "Every trial passed\t%s of the cases\n", term.Percent(run.PassK))
	}
	printLift(w, run)
	if c := run.Catalog; c != nil {
		fmt.Fprintf(w, "Catalog\t%s\n", catalogText(*c))
	}
	if a := run.Agent; a != nil {
		fmt.Fprintf(w, "Agent\t%s\n", term.Plain(a.Name+" "+a.Model))
	}
	if run.Judge != nil {
		fmt.Fprintf(w, "Judge\t%s\n", term.Plain(run.Judge.API+" "+run.Judge.Model))
	}
	if c := run.Cost; c != nil && c.Requests > 0 {
		price := dollars(c.USD)
		input := c.Tokens.Input + c.Tokens.CacheRead + c.Tokens.CacheWrite
		fmt.Fprintf(w, "Cost\t%s: %d requests, %d tokens in, %d out\n", price, c.Requests, input, c.Tokens.Output)
		if len(run.CostUSDByVariant) > 1 {
			fmt.Fprintf(w, "\t%s\n", costByVariant(run.CostUSDByVariant))
		}
	}
	if run.EstimateUSD != nil {
		fmt.Fprintf(w, "Estimate\t%s\n", dollars(run.EstimateUSD))
	}
	fmt.Fprintf(w, "Page\t%s\n", page)
}

// printLift prints what the skill changes against the baseline, with the confidence
// interval and p, or why that is not known. The sign is always printed: a skill can
// make things worse.
func printLift(w io.Writer, run api.EvalReport) {
	if l := run.Lift; l != nil {
		fmt.Fprintf(w, "Baseline\t%s: the skill changes the score by %+.0f points (%+.0f to %+.0f), p = %.2g\n",
			run.Baseline, 100*l.Difference, 100*l.Interval[0], 100*l.Interval[1], l.P)
		for _, r := range []struct {
			what  string
			ratio *api.EvalFigure
		}{{"cost", l.Cost}, {"tokens", l.Tokens}, {"turns", l.Turns}, {"duration", l.Duration}} {
			if r.ratio != nil {
				fmt.Fprintf(w, "\t%s %.2f times the baseline's (%.2f to %.2f)\n", r.what, r.ratio.Value, r.ratio.Interval[0],
					r.ratio.Interval[1])
			}
		}
	}
	if b := run.BaselineResult; b != nil {
		fmt.Fprintf(w, "\tthe baseline's pass rate is %s, %+.0f points with the skill (normalised gain %.2f)\n",
			term.Percent(&b.PassRate), 100*b.Delta, b.NormalizedGain)
		return
	}
	if reason := baselineReason(run); run.Lift == nil && reason != "" {
		fmt.Fprintf(w, "Baseline\t%s: no result: %s\n", run.Baseline, reason)
	}
}

// baselineReason returns why the first trial of the baseline has no verdict, or "".
func baselineReason(run api.EvalReport) string {
	for _, c := range run.Cases {
		for _, t := range c.Trials {
			if t.Variant != "skill" && (t.Verdict == "skipped" || t.Verdict == "error") {
				return trialReason(t)
			}
		}
	}
	return ""
}

// costByVariant formats the costs of the arms, e.g. "skill 0.0120 USD, no_skill 0.0100
// USD", or "" if there are none.
func costByVariant(costs map[string]*float64) string {
	var all []string
	// In this order, whatever the order of the map.
	for _, variant := range []string{"skill", "no_skill", "previous"} {
		if usd, ok := costs[variant]; ok {
			all = append(all, variant+" "+dollars(usd))
		}
	}
	return strings.Join(all, ", ")
}

// runStatus formats the status of a run, and whether it was imported.
func runStatus(r api.EvalRun) string {
	if r.Imported != nil {
		return r.Status + ", imported"
	}
	return r.Status
}

// runScore formats the score with the number of trials that ended with an error,
// because those are not part of it. An older server sends only the pass rate.
func runScore(r api.EvalRun) string {
	text := term.Rate(r.Score, r.ScoreInterval)
	if r.Score == nil && r.PassRate != nil {
		text = "pass rate " + term.Rate(r.PassRate, r.PassRateInterval)
	}
	if r.TrialErrors > 0 {
		text += ", " + term.Count(r.TrialErrors, "error")
	}
	if unreliable(r) {
		text += ", UNRELIABLE"
	}
	return text
}

// unreliable reports whether so many trials ended with an error that the score is not
// reliable. It looks at the number of errors, too: an older server does not send
// Reliable.
func unreliable(r api.EvalRun) bool { return r.TrialErrors > 0 && !r.Reliable }

// failureReason returns in one line why a case did not pass, from the first trial with
// the skill that did not.
func failureReason(c api.EvalCase) string {
	for _, t := range c.Trials {
		if t.Variant != "skill" || t.Verdict == "pass" {
			continue
		}
		return trialReason(t)
	}
	return ""
}

// trialReason returns the error of a trial, or the summary of its evidence.
func trialReason(t api.EvalTrial) string {
	if t.Error != nil {
		return term.Cell(*t.Error)
	}
	return evidenceSummary(t)
}

// evidenceSummary says in a sentence why a trial has its verdict. Evidence of another shape, from
// a newer server, has no summary.
func evidenceSummary(t api.EvalTrial) string {
	evidence, _ := t.Evidence.(map[string]any)
	summary, _ := evidence["summary"].(string)
	return term.Cell(summary)
}
