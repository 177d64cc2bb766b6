package quality

import (
	"context"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// catalogPair is a run with the descriptions as an agent truncates them, and the same
// run with whole descriptions. The difference is what the truncation costs.
type catalogPair struct {
	Run  api.EvalReport `json:"run"`
	Full api.EvalReport `json:"full_run"`
}

// compareCatalog starts a second run with whole descriptions beside run, with the same
// seed, so that the two can be compared. With --wait it waits for both; the exit code
// is that of the first run.
func (c *evalRunCommand) compareCatalog(
	ctx context.Context, p *term.Program, s *server.Session, run api.EvalReport, n api.NewEvalRun,
) error {
	// The same seed, so that the runs differ in the catalog only.
	n.Catalog, n.ContextWindow, n.Seed = "full", 0, run.Seed
	full, err := s.StartEvalRun(ctx, run.SuiteID, n)
	if err != nil {
		return fmt.Errorf("the run %s goes on, but the one with whole descriptions could not be started: %w", run.ID, err)
	}
	pair := catalogPair{run, full}
	if !c.Wait {
		return p.Print(pair, func(w io.Writer) {
			fmt.Fprintf(w, "Started the run %s with what %s lists, and %s with whole descriptions; `whetstone eval watch "+
				"ID` follows one.\n%s\n%s\n", run.ID, c.Catalog, full.ID, s.Page("runs", run.ID), s.Page("runs", full.ID))
		})
	}
	// One after the other: both run on the server at the same time anyway.
	for _, r := range []*api.EvalReport{&pair.Full, &pair.Run} {
		progress := p.Progress()
		got, err := s.WatchEvalRun(ctx, r.ID, func(e client.EvalEvent) {
			if e.Progress != nil {
				progress.Show("Running  %d of %s (%s)", e.Progress.Done, term.Count(e.Progress.Total, "trial"), r.Catalog.Catalog)
			}
		})
		progress.Clear()
		if err != nil && ctx.Err() != nil {
			return p.GoesOn("run", r.ID)
		}
		if err != nil {
			return err
		}
		// pair has the finished runs from here on.
		*r = got
	}
	err = p.Print(pair, func(w io.Writer) {
		printRun(w, pair.Run, s.Page("runs", run.ID))
		fmt.Fprintf(w, "\nWhole descriptions\t%s (run %s)\n", runScore(pair.Full.EvalRun), full.ID)
		fmt.Fprintf(w, "As %s lists them\t%s\n", c.Catalog, runScore(pair.Run.EvalRun))
		fmt.Fprintf(w, "Compare\t%s?with=%s\n\t`whetstone report --agent %s` tests the difference over all suites\n",
			s.Page("runs", run.ID, "compare"), full.ID, c.Catalog)
	})
	if err != nil {
		return err
	}
	return unlessPassed(pair.Run)
}

// catalogText formats the catalog that a run's trigger queries were asked on.
func catalogText(c api.EvalCatalog) string {
	if c.Catalog == "full" {
		return fmt.Sprintf("%s with whole descriptions", term.Count(c.Skills, "skill"))
	}
	return fmt.Sprintf("%s as %s lists them with a context window of %d tokens", term.Count(c.Skills, "skill"), c.Catalog,
		c.Window)
}
