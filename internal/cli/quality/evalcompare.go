package quality

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// evalCompareCommand has the arms of a comparison: each version, and no skill, with each agent.
type evalCompareCommand struct {
	server.Flags `embed:""`
	suiteArg     `embed:""`
	Source       string   `env:"-" placeholder:"SOURCE" xor:"subject" help:"Compare the newest snapshot of this cloud source (label or id)."`
	Entry        string   `env:"-" placeholder:"NAME" xor:"subject" help:"Compare versions of this entry of the registry (name or id)."`
	Versions     []string `name:"version" env:"-" placeholder:"V" help:"Version of the entry; the current one when omitted. May be repeated."`
	NoSkill      bool     `env:"-" help:"Also try the cases without a skill."`
	Agents       []string `name:"agent" env:"-" placeholder:"NAME[:MODEL]" help:"Agent and model that work on the cases. May be repeated."`
	Trials       int      `env:"-" default:"3" help:"How often to try each case in each arm, at most 30."`
	Preference   bool     `env:"-" help:"Also ask the judge which output of a pair of arms is better."`
	Margin       float64  `env:"-" default:"0.05" help:"By how much an arm may be worse and still be recommended, 0 to 0.5."`
	MaxCost      string   `name:"max-cost-usd" env:"-" placeholder:"USD" help:"Spending limit over all arms (USD)."`
	Estimate     bool     `env:"-" help:"Print what it would probably cost, and start nothing."`
	Wait         bool     `env:"-" help:"Wait for the result. The exit code is 1 if an arm is shown to be worse than the first, else 3 if a pair with the first is inconclusive."`
}

// Run starts a comparison, and with --wait follows it to its end.
func (c *evalCompareCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		n, err := c.comparison(ctx, s)
		if err != nil {
			return err
		}
		if c.Estimate {
			e, err := s.EstimateComparison(ctx, n)
			if err != nil {
				return err
			}
			return p.Print(e, func(w io.Writer) {
				fmt.Fprintf(w, "%s, %s of models: %s.\n",
					term.Count(e.Trials, "trial"), term.Count(e.Calls, "call"), dollars(e.CostUSD))
			})
		}
		started, err := s.Compare(ctx, n)
		if err != nil {
			return err
		}
		if !c.Wait {
			return p.Print(started, func(w io.Writer) {
				fmt.Fprintf(w, "Started the comparison %s.\n%s\n", started.ID, s.Page("comparisons", started.ID))
			})
		}
		return followComparison(ctx, p, s, started.ID)
	})
}

// comparison is what the flags describe.
func (c *evalCompareCommand) comparison(ctx context.Context, s *server.Session) (n api.NewComparison, err error) {
	n = api.NewComparison{Trials: c.Trials, Margin: &c.Margin, Preference: c.Preference}
	if n.SuiteID, err = s.SuiteID(ctx, c.Suite); err != nil {
		return n, err
	}
	var skills []api.ComparisonArm
	if c.Entry != "" || c.Source != "" {
		versions := c.Versions
		if len(versions) == 0 {
			versions = []string{""}
		}
		for _, v := range versions {
			subject, err := s.EvalSubject(ctx, c.Source, c.Entry, v)
			if err != nil {
				return n, err
			}
			skills = append(skills, api.ComparisonArm{
				EntryID: subject.EntryID, SourceID: subject.SourceID, Version: subject.Version,
			})
		}
	}
	if c.NoSkill {
		skills = append(skills, api.ComparisonArm{NoSkill: true})
	}
	agents := []*api.EvalAgent{nil}
	if len(c.Agents) > 0 {
		agents = nil
	}
	for _, a := range c.Agents {
		name, model, _ := strings.Cut(a, ":")
		agents = append(agents, &api.EvalAgent{Name: name, Model: model})
	}
	for _, agent := range agents {
		for _, arm := range skills {
			arm.Agent = agent
			n.Arms = append(n.Arms, arm)
		}
	}
	if len(n.Arms) < 2 {
		return n, fault.Invalid("arms", "name at least two things to compare with --entry, --version, --no-skill and --agent")
	}
	return n, readLimit("max-cost-usd", c.MaxCost, &n.MaxCostUSD)
}

// readLimit reads a flag in dollars; "" is no limit.
func readLimit(flag, value string, limit **float64) error {
	if value == "" {
		return nil
	}
	usd, err := strconv.ParseFloat(value, 64)
	// Negated, so that NaN is refused, too.
	if err != nil || !(usd > 0) {
		return fault.Invalid(flag, "%s must be dollars, like 1.50", flag)
	}
	*limit = &usd
	return nil
}

// followComparison waits for the end of a comparison, with progress on a terminal, and prints it.
func followComparison(ctx context.Context, p *term.Program, s *server.Session, id string) error {
	progress := p.Progress()
	got, err := s.WatchComparison(ctx, id, func(c api.Comparison) {
		progress.Show("Comparing  %d of %s", c.Progress.Done, term.Count(c.Progress.Total, "trial"))
	})
	progress.Clear()
	if ctx.Err() != nil {
		return p.GoesOn("comparison", id)
	}
	if err != nil {
		return err
	}
	err = p.Print(got, func(w io.Writer) {
		printComparison(w, got)
		fmt.Fprintln(w, s.Page("comparisons", id))
	})
	if err != nil {
		return err
	}
	inconclusive := false
	for _, pair := range got.Pairs {
		if pair.A != got.Arms[0].Name {
			continue
		}
		if pair.Verdict == "a_better" {
			return term.ErrPrinted
		}
		inconclusive = inconclusive || pair.Verdict == "inconclusive"
	}
	switch {
	case got.Status != "succeeded":
		return term.ErrPrinted
	case inconclusive:
		return term.ExitCode(term.ExitInconclusive)
	}
	return nil
}

// printComparison prints the arms, the pairs and what follows.
func printComparison(out io.Writer, c api.Comparison) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ARM\tSCORE\tCASES\tERRORS\tCOST\tCOST PER PASS")
	for _, a := range c.Arms {
		score := "-"
		if a.Score != nil {
			score = fmt.Sprintf("%.0f%% (%.0f-%.0f%%)", 100**a.Score, 100*a.Interval[0], 100*a.Interval[1])
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\n",
			term.Cell(a.Name), score, a.Cases, a.Errors, known(a.CostUSD), known(a.PerPass))
	}
	_ = w.Flush() // out keeps its error
	for _, pair := range c.Pairs {
		fmt.Fprintf(out, "\n%s against %s: %+.0f points (%+.0f to %+.0f) on %s, %s\n", pair.B, pair.A, 100*pair.Difference,
			100*pair.Interval[0], 100*pair.Interval[1], term.Count(pair.Cases, "case"),
			strings.ReplaceAll(pair.Verdict, "_", " "))
		if pair.Reason != nil {
			fmt.Fprintf(out, "  %s\n", *pair.Reason)
		}
		if r := pair.Cost; r != nil {
			fmt.Fprintf(out, "  %.2f of the cost (%.2f to %.2f)\n", r.Value, r.Interval[0], r.Interval[1])
		}
		if r := pair.Preference; r != nil {
			fmt.Fprintf(out, "  preferred: %d wins, %d losses, %d ties", r.Wins, r.Losses, r.Ties)
			if !r.Reliable {
				fmt.Fprint(out, " (not reliable)")
			}
			fmt.Fprintln(out)
		}
	}
	fmt.Fprintf(out, "\nRecommendation: %s", c.Recommendation.Kind)
	if c.Recommendation.Arm != nil {
		fmt.Fprintf(out, " (%s)", *c.Recommendation.Arm)
	}
	fmt.Fprintf(out, ". %s\n", c.Recommendation.Reason)
}

// known formats an amount; "-" if it is not known.
func known(usd *float64) string {
	if usd == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f USD", *usd)
}
