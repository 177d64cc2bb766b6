package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/lint"
)

type checkCommand struct {
	Dir    string `arg:"" optional:"" default:"." help:"Folder of the skill; this one when empty."`
	Strict bool   `env:"-" help:"Fail for warnings, too."`
	SARIF  bool   `env:"-" name:"sarif" help:"Print SARIF 2.1.0, for code hosts and editors."`
}

// Help is shown below the description of the command.
func (checkCommand) Help() string {
	return `Exit codes: 0 the status is pass or warn; 1 it is fail, or warn with --strict; 2 the folder cannot be read or packed.`
}

// Run packs a folder as push does and says what is wrong with the skill in it.
func (c *checkCommand) Run(ctx context.Context, p *Program) error {
	report, err := c.check(ctx)
	if err != nil {
		return err
	}
	if err := c.print(p, report); err != nil {
		return err
	}
	status := report.Status()
	if status == lint.StatusFail || c.Strict && status == lint.StatusWarn {
		return errSaid
	}
	return nil
}

func (c *checkCommand) check(ctx context.Context) (lint.Report, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return lint.Report{}, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return lint.Report{}, fault.Invalid("dir", "dir: %s", err)
	}
	if !info.IsDir() {
		return lint.NotFolder(), nil
	}
	folder, err := packFolder(ctx, dir)
	if report, ok := lint.Refused(err); ok {
		return report, nil
	}
	if err != nil {
		return lint.Report{}, err
	}
	defer folder.close()
	folder.pkg.Folder = filepath.Base(dir)
	return lint.Check(ctx, folder.pkg)
}

type checkOutput struct {
	Engine string      `json:"engine"`
	Status string      `json:"status"`
	Counts lint.Counts `json:"counts"`
	lint.Report
}

func (c *checkCommand) print(p *Program, r lint.Report) error {
	if c.SARIF {
		enc := json.NewEncoder(p.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(lint.SARIF(r, filepath.ToSlash(relative(c.Dir))))
	}
	out := checkOutput{lint.Engine, r.Status(), r.Counts(), r}
	return p.print(out, func(w io.Writer) {
		for _, f := range r.Findings {
			printFinding(w, f)
		}
		n := out.Counts
		fmt.Fprintf(w, "%s, %s, %s: %s\n", count(n.Error, "error"), count(n.Warning, "warning"), count(n.Info, "note"), out.Status)
	})
}

// relative is the folder as code hosts want it: below where the command runs,
// or "" if it is not.
func relative(dir string) string {
	if filepath.IsLocal(dir) {
		return dir
	}
	return ""
}

func printFinding(w io.Writer, f lint.Finding) {
	at := f.Path
	if at == "" {
		at = "."
	}
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, f.Line)
	}
	fmt.Fprintf(w, "%s  %s  %s  %s\n", plain(at), f.Severity, f.Code, plain(f.Message))
	if f.Evidence != "" {
		fmt.Fprintf(w, "    | %s\n", plain(f.Evidence))
	}
	fmt.Fprintf(w, "    %s\n", plain(f.Remediation))
}
