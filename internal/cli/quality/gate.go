package quality

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// gateCommand has the flags of `whetstone gate`.
type gateCommand struct {
	server.Flags `embed:""`
	Dir          string   `arg:"" optional:"" default:"." help:"Folder of the skill; the current one when empty."`
	Against      string   `env:"-" default:"current" help:"Version to compare with."`
	Entry        string   `env:"-" placeholder:"NAME" help:"Entry of the registry; the name in SKILL.md when empty."`
	Suite        []string `env:"-" help:"Suites to run (names or ids); those of the entry's gate policy when empty."`
	Trials       *int     `env:"-" placeholder:"N" help:"How often to try each case; as the gate policy says when empty."`
	MinCases     *int     `env:"-" placeholder:"N" help:"Minimum cases for a verdict; as the gate policy says when empty."`
	Format       string   `env:"-" enum:"markdown,json,junit,sarif" default:"markdown" help:"markdown, json (also --json), junit or sarif."`
	Output       string   `env:"-" short:"o" placeholder:"FILE" help:"File to write; standard output when empty."`
}

// Help is shown below the description of the command.
func (gateCommand) Help() string {
	return `The server makes the same decision as after a push, and publishes nothing.

Exit codes: 0 the version is not worse; 1 it is worse (or the command failed); 3 inconclusive.`
}

// Run gates the skill in a folder: is it worse than a version of the registry? Nothing
// is published. Ctrl-C leaves the gate on the server.
func (c *gateCommand) Run(ctx context.Context, p *term.Program) error {
	// Only a file may have another format than the JSON that --json promises.
	if p.JSON && (c.Format == "markdown" || c.Output == "") {
		c.Format = "json"
	}
	packed, err := server.PackFolder(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer packed.Close()
	// The name in SKILL.md is that of the entry, unless it was renamed.
	if c.Entry == "" {
		skill, err := packed.Package.Skill()
		if err != nil {
			return err
		}
		c.Entry = skill.Name
	}
	return c.WithSession(p, func(s *server.Session) error {
		o := gateQuestion{Archive: packed.Archive, Trials: c.Trials, MinCases: c.MinCases}
		entry, err := s.EntryByName(ctx, c.Entry)
		if err != nil {
			return err
		}
		o.Entry = entry.Entry
		if c.Against != "current" {
			o.Against = c.Against
		}
		for _, name := range c.Suite {
			id, err := s.SuiteID(ctx, name)
			if err != nil {
				return err
			}
			o.Suites = append(o.Suites, id)
		}
		// Drawn only on a terminal; in a job's log the verdict is all there is.
		progress := p.Progress()
		o.Progress = func(state string) { progress.Show("The gate is %s", state) }
		gate, err := compareFolder(ctx, s.Client, o)
		progress.Clear()
		if err != nil && ctx.Err() != nil && gate.ID != "" {
			return p.Interrupted("the gate goes on; `whetstone gates show %s` shows its verdict", gate.ID)
		}
		if err != nil {
			return err
		}
		// Nothing was compared, so the exit code 0 would mislead a pipeline.
		if gate.Verdict != nil && *gate.Verdict == "skipped" {
			return fault.Invalid("suite", "name a suite with --suite: the gate policy of %s has none", entry.Name)
		}
		err = c.write(p, func(w io.Writer) error {
			return writeGate(w, gate, c.Format, path.Clean(filepath.ToSlash(c.Dir)), packed.Package)
		})
		if err != nil {
			return err
		}
		// A gate without a verdict was superseded or cancelled.
		switch {
		case gate.Verdict == nil || *gate.Verdict == "inconclusive":
			return term.ExitCode(term.ExitInconclusive)
		case *gate.Verdict == "block":
			return term.ErrPrinted
		}
		return nil
	})
}

// write calls fn with standard output, or with the file of --output. The file is
// made only after the verdict, so that a failure leaves an old one as it is.
func (c *gateCommand) write(p *term.Program, fn func(io.Writer) error) error {
	if c.Output == "" {
		return fn(p.Stdout)
	}
	f, err := os.Create(c.Output)
	if err != nil {
		return fault.Invalid("output", "output: %s", err)
	}
	if err := fn(f); err != nil {
		return err
	}
	return f.Close()
}
