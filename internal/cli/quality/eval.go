package quality

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// evalCommands are the commands `whetstone eval`. Commands about runs take the id of
// a run, or the suite of the newest one.
type evalCommands struct {
	List    evalListCommand    `cmd:"" help:"List the eval suites."`
	Show    evalShowCommand    `cmd:"" help:"Show a suite, its cases and its latest runs."`
	Import  evalImportCommand  `cmd:"" help:"Create a suite from evals.json, trigger queries, an exported suite, Harbor task folders or cases of claude plugin eval."`
	Export  evalExportCommand  `cmd:"" help:"Write a suite to a file."`
	Run     evalRunCommand     `cmd:"" help:"Run a suite against a skill."`
	Compare evalCompareCommand `cmd:"" help:"Compare versions, no skill, agents or models on a suite."`
	Trial   evalTrialCommand   `cmd:"" help:"Show a trial of a run: what was asked, what was done, and why it has its verdict."`
	Watch   evalWatchCommand   `cmd:"" help:"Follow a run or an improve run to its end."`
	Cancel  evalCancelCommand  `cmd:"" help:"Cancel a run or an improve run."`
	Improve improveCommand     `cmd:"" help:"Search for a better SKILL.md with the cases of a suite."`

	Schedule evalScheduleCommands `cmd:"" help:"Run suites at fixed times."`
}

// suiteArg is the argument of the commands about one suite. Names are unique in an
// organisation only by custom, so an ambiguous one is refused.
type suiteArg struct {
	Suite string `arg:"" names:"suites" help:"Name or id of the suite."`
}

// evalListCommand lists suites.
type evalListCommand struct {
	server.Flags `embed:""`
	Source       string `env:"-" placeholder:"SOURCE" help:"Only suites of this cloud source (label or id)."`
	Verifier     string `env:"-" placeholder:"KIND" enum:",llm_judge,deterministic,structured_rubric" default:"" help:"Only suites with this verifier: llm_judge, deterministic or structured_rubric."`
}

// Run lists the eval suites of the organisation.
func (c *evalListCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		source, err := s.SourceID(ctx, c.Source)
		if err != nil {
			return err
		}
		suites, err := s.EvalSuites(ctx, client.EvalSuiteFilter{SourceID: source, VerifierKind: c.Verifier})
		if err != nil {
			return err
		}
		return term.List[api.EvalSuite]{
			None: "No suites.",
			Head: "NAME\tVERIFIER\tCASES\tRUNNABLE\tID",
			Row: func(suite api.EvalSuite) []any {
				return []any{
					term.Cell(suite.Name), suite.VerifierKind, suite.CaseCount, term.YesNo(suite.Runnable), suite.ID,
				}
			},
		}.Print(p, suites)
	})
}

// evalShowCommand shows a suite.
type evalShowCommand struct {
	server.Flags `embed:""`
	suiteArg     `embed:""`
}

// shownSuite is a suite with its latest runs, as --json prints it.
type shownSuite struct {
	api.EvalSuite
	Runs []api.EvalRun `json:"runs"`
}

// Run shows a suite, its cases and its latest runs, with the reasons if it is not
// runnable.
func (c *evalShowCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.SuiteID(ctx, c.Suite)
		if err != nil {
			return err
		}
		suite, err := s.EvalSuite(ctx, id)
		if err != nil {
			return err
		}
		runs, err := s.EvalRuns(ctx, id)
		if err != nil {
			return err
		}
		return p.Print(shownSuite{suite, runs}, func(w io.Writer) { printSuite(w, suite, runs) })
	})
}

// printSuite prints a suite with its cases as one table and its runs as another. The
// issues tell why a suite cannot be run, at the field that they are about.
func printSuite(w io.Writer, suite api.EvalSuite, runs []api.EvalRun) {
	fmt.Fprintf(w, "Suite\t%s\n", term.Plain(suite.Name))
	fmt.Fprintf(w, "Id\t%s\n", suite.ID)
	fmt.Fprintf(w, "Verifier\t%s\n", suite.VerifierKind)
	fmt.Fprintf(w, "Runnable\t%s\n", term.YesNo(suite.Runnable))
	for _, issue := range suite.RunnabilityIssues {
		fmt.Fprintf(w, "\t%s: %s\n", term.Plain(strings.Join(issue.Path, ".")), term.Plain(issue.Message))
	}
	fmt.Fprintln(w, "\nCASE\tKIND\tASKS")
	for _, raw := range suite.Cases {
		fmt.Fprintln(w, caseRow(raw))
	}
	if len(runs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nRUN\tSTATUS\tSCORE\tSTARTED")
	for _, r := range runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.ID, runStatus(r), runScore(r),
			time.Time(r.CreatedAt).Local().Format("2006-01-02 15:04"))
	}
}

// caseRow formats a case as one row of the table. It decodes leniently, because a suite
// may hold drafts of cases, and each kind of case has other fields.
func caseRow(raw json.RawMessage) string {
	var fields map[string]any
	_ = json.Unmarshal(raw, &fields) // the server sends objects
	first := func(names ...string) string {
		for _, name := range names {
			if value := fields[name]; value != nil {
				return term.Cell(fmt.Sprint(value))
			}
		}
		return ""
	}
	// Each kind of case has one of these fields; the first that is set is what it
	// asks.
	asks := first("query", "prompt", "input", "command", "output", "instruction", "environment_ref")
	return cmp.Or(first("name"), first("id")) + "\t" + first("case_kind") + "\t" + asks
}

// evalExportCommand exports a suite.
type evalExportCommand struct {
	server.Flags `embed:""`
	suiteArg     `embed:""`
	Format       string `env:"-" enum:"suite,evals.json,trigger,plugin-eval" default:"suite" help:"suite (everything), evals.json (rubric cases), trigger (trigger queries) or plugin-eval (a zip of cases of claude plugin eval)."`
	Output       string `env:"-" short:"o" placeholder:"FILE" help:"File to write; standard output when empty."`
}

// Run writes a suite to a file or to standard output, as JSON with or without --json,
// or as a zip. An existing file is overwritten.
func (c *evalExportCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.SuiteID(ctx, c.Suite)
		if err != nil {
			return err
		}
		file, err := s.ExportEvalSuite(ctx, id, c.Format)
		if err != nil {
			return err
		}
		if c.Output == "" {
			_, err = p.Stdout.Write(file)
			return err
		}
		// Readable by others: a suite is meant to be shared.
		if err := os.WriteFile(c.Output, file, 0o644); err != nil {
			return fault.Invalid("output", "output: %s", err)
		}
		return nil
	})
}

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
