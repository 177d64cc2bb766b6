package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

type evalCommands struct {
	List    evalListCommand    `cmd:"" help:"List the eval suites."`
	Show    evalShowCommand    `cmd:"" help:"Show a suite, its cases and its latest runs."`
	Import  evalImportCommand  `cmd:"" help:"Make a suite of evals.json, trigger queries, an exported suite or Harbor task folders."`
	Export  evalExportCommand  `cmd:"" help:"Write a suite to a file."`
	Run     evalRunCommand     `cmd:"" help:"Run a suite against a skill."`
	Watch   evalWatchCommand   `cmd:"" help:"Follow a run or an improve run to its end."`
	Cancel  evalCancelCommand  `cmd:"" help:"End a run or an improve run early."`
	Improve evalImproveCommand `cmd:"" help:"Look for a better description by a suite's trigger queries."`
}

// suiteArg names a suite.
type suiteArg struct {
	Suite string `arg:"" help:"Name or id of the suite."`
}

// suiteID returns the id of the suite that is meant.
func (s *session) suiteID(ctx context.Context, name string) (string, error) {
	if entryID.MatchString(name) {
		return name, nil
	}
	suites, err := s.EvalSuites(ctx, client.EvalSuiteFilter{})
	if err != nil {
		return "", err
	}
	var ids []string
	for _, suite := range suites {
		if suite.Name == name {
			ids = append(ids, suite.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", fault.New(fault.NotFound, "No suite is named %s", plain(name))
	case 1:
		return ids[0], nil
	}
	return "", fault.New(fault.Conflict, "%d suites are named %s; take one of the ids %s", len(ids), plain(name), strings.Join(ids, ", "))
}

type evalListCommand struct {
	remote   `embed:""`
	Source   string `env:"-" placeholder:"ID" help:"Only suites of this cloud source."`
	Verifier string `env:"-" placeholder:"KIND" enum:",llm_judge,deterministic,structured_rubric" default:"" help:"Only suites with this verifier: llm_judge, deterministic or structured_rubric."`
}

// Run lists suites.
func (c *evalListCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		suites, err := s.EvalSuites(ctx, client.EvalSuiteFilter{SourceID: c.Source, VerifierKind: c.Verifier})
		if err != nil {
			return err
		}
		return p.print(suites, func(w io.Writer) {
			if len(suites) == 0 {
				fmt.Fprintln(w, "No suites.")
				return
			}
			fmt.Fprintln(w, "NAME\tVERIFIER\tCASES\tRUNNABLE\tID")
			for _, suite := range suites {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", shorten(suite.Name), suite.VerifierKind, suite.CaseCount, yes(suite.Runnable), suite.ID)
			}
		})
	})
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

type evalShowCommand struct {
	remote   `embed:""`
	suiteArg `embed:""`
}

type shownSuite struct {
	client.EvalSuite
	Runs []client.EvalRun `json:"runs"`
}

// Run shows a suite.
func (c *evalShowCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		id, err := s.suiteID(ctx, c.Suite)
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
		return p.print(shownSuite{suite, runs}, func(w io.Writer) { printSuite(w, suite, runs) })
	})
}

func printSuite(w io.Writer, suite client.EvalSuite, runs []client.EvalRun) {
	fmt.Fprintf(w, "Suite\t%s\n", plain(suite.Name))
	fmt.Fprintf(w, "Id\t%s\n", suite.ID)
	fmt.Fprintf(w, "Verifier\t%s\n", suite.VerifierKind)
	fmt.Fprintf(w, "Runnable\t%s\n", yes(suite.Runnable))
	for _, issue := range suite.RunnabilityIssues {
		fmt.Fprintf(w, "\t%s: %s\n", plain(strings.Join(issue.Path, ".")), plain(issue.Message))
	}
	fmt.Fprintln(w, "\nCASE\tKIND\tASKS")
	for _, raw := range suite.Cases {
		fmt.Fprintln(w, newShownCase(raw).line())
	}
	if len(runs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nRUN\tSTATUS\tPASS RATE\tSTARTED")
	for _, r := range runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.ID, r.Status, rate(r), r.CreatedAt.Local().Format("2006-01-02 15:04"))
	}
}

// A shownCase has the fields of a case that fit into a line.
type shownCase struct {
	id, name, kind, asks string
}

// newShownCase reads a case leniently: a suite may hold cases that are not
// whole yet.
func newShownCase(raw json.RawMessage) shownCase {
	var fields map[string]any
	_ = json.Unmarshal(raw, &fields) // the server sends objects
	text := func(names ...string) string {
		for _, name := range names {
			if value := fields[name]; value != nil {
				return shorten(fmt.Sprint(value))
			}
		}
		return ""
	}
	return shownCase{text("id"), text("name"), text("case_kind"), text("query", "prompt", "input", "command", "output", "instruction", "environment_ref")}
}

func (c shownCase) line() string {
	label := c.id
	if c.name != "" {
		label = c.name
	}
	return label + "\t" + c.kind + "\t" + c.asks
}

type evalExportCommand struct {
	remote   `embed:""`
	suiteArg `embed:""`
	Format   string `env:"-" enum:"suite,evals.json,trigger" default:"suite" help:"suite (everything), evals.json (rubric cases) or trigger (trigger queries)."`
	Output   string `env:"-" short:"o" placeholder:"FILE" help:"File to write; standard output when empty."`
}

// Run writes a suite to a file. What is printed is JSON in any case.
func (c *evalExportCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		id, err := s.suiteID(ctx, c.Suite)
		if err != nil {
			return err
		}
		file, err := s.ExportEvalSuite(ctx, id, c.Format)
		if err != nil {
			return err
		}
		file = append(file, '\n')
		if c.Output == "" {
			_, err = p.Stdout.Write(file)
			return err
		}
		if err := os.WriteFile(c.Output, file, 0o644); err != nil { //nolint:gosec // meant to be shared
			return fault.Invalid("output", "output: %s", err)
		}
		return nil
	})
}
