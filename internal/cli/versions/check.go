package versions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint/sarif"
)

// A checkCommand lints the skill in a folder, e.g. in a pre-commit hook. It runs the
// same rules as the server, so a push has no surprises.
type checkCommand struct {
	Dir    string `arg:"" optional:"" default:"." help:"Folder of the skill; the current one when empty."`
	Strict bool   `env:"-" help:"Fail on warnings, too."`
	SARIF  bool   `env:"-" name:"sarif" help:"Print SARIF 2.1.0, for code hosts and editors."`
}

// Help is shown below the description of the command.
func (checkCommand) Help() string {
	return `Exit codes: 0 the status is pass or warn; 1 it is fail, or warn with --strict; 2 the folder cannot be read or packed.`
}

// Run packs a folder as push does and lints the skill in it. It needs no server.
// Warnings fail it only with --strict. The report is printed first: the exit code
// alone would not say what to fix.
func (c *checkCommand) Run(ctx context.Context, p *term.Program) error {
	report, err := c.check(ctx)
	if err != nil {
		return err
	}
	if err := c.print(p, report); err != nil {
		return err
	}
	status := report.Status()
	if status == lint.StatusFail || c.Strict && status == lint.StatusWarn {
		return term.ErrPrinted
	}
	return nil
}

// check lints the folder. A folder that cannot be packed for a reason that has a rule,
// e.g. because it is too large, is a report with that finding and not an error.
func (c *checkCommand) check(ctx context.Context) (lint.Report, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return lint.Report{}, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return lint.Report{}, server.FolderError(c.Dir, err)
	}
	// A finding rather than an error, e.g. where a pre-commit hook passes a file.
	if !info.IsDir() {
		return lint.NotFolder(), nil
	}
	packed, err := server.PackFolder(ctx, dir)
	// The rules that guard the archive, e.g. on its size, fail while packing.
	if report, ok := lint.Refused(err); ok {
		return report, nil
	}
	if err != nil {
		return lint.Report{}, err
	}
	defer packed.Close()
	// Rules compare the skill's name with that of its folder.
	packed.Package.Folder = filepath.Base(dir)
	return lint.Check(ctx, packed.Package)
}

// checkOutput is the report as --json prints it; Engine is the version of the rules.
type checkOutput struct {
	Engine string      `json:"engine"`
	Status string      `json:"status"`
	Counts lint.Counts `json:"counts"`
	lint.Report
}

// print prints the report as SARIF, as JSON, or for people with one finding per
// paragraph: "PATH:LINE SEVERITY CODE MESSAGE".
func (c *checkCommand) print(p *term.Program, r lint.Report) error {
	if c.SARIF {
		// Code hosts want paths relative to the root of the repository, where CI runs
		// the command.
		base := ""
		if filepath.IsLocal(c.Dir) {
			base = filepath.ToSlash(c.Dir)
		}
		return p.PrintJSON(sarif.New(r, base))
	}
	out := checkOutput{lint.Engine, r.Status(), r.Counts(), r}
	return p.Print(out, func(w io.Writer) {
		for _, f := range r.Findings {
			// A finding about the skill as a whole has no path.
			location := cmp.Or(f.Path, ".")
			if f.Line > 0 {
				location = fmt.Sprintf("%s:%d", location, f.Line)
			}
			fmt.Fprintf(w, "%s  %s  %s  %s\n", term.Plain(location), f.Severity, f.Code, term.Plain(f.Message))
			if f.Evidence != "" {
				fmt.Fprintf(w, "    | %s\n", term.Plain(f.Evidence))
			}
			fmt.Fprintf(w, "    %s\n", term.Plain(f.Remediation))
		}
		n := out.Counts
		fmt.Fprintf(w, "%s, %s, %s: %s\n", term.Count(n.Error, "error"), term.Count(n.Warning, "warning"),
			term.Count(n.Info, "note"), out.Status)
	})
}
