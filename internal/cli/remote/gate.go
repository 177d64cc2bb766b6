package remote

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/cli/folder"
	"github.com/whetstone-dev/whetstone/internal/cli/gating"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

type gateCommand struct {
	serverFlags `embed:""`
	Dir         string   `arg:"" optional:"" default:"." help:"Folder of the skill; the current one when empty."`
	Against     string   `env:"-" default:"current" help:"Version to compare with."`
	Entry       string   `env:"-" placeholder:"NAME" help:"Entry of the registry; the name in SKILL.md when empty."`
	Suite       []string `env:"-" help:"Suites to run (names or ids); those of the entry's gate policy when empty."`
	Trials      int      `env:"-" default:"0" help:"How often to try each case; as the gate policy says when 0."`
	MinCases    int      `env:"-" default:"-1" help:"Decided cases that a verdict needs; as the gate policy says when -1."`
	Format      string   `env:"-" enum:"markdown,json,junit,sarif" default:"markdown" help:"markdown, json, junit or sarif."`
	Output      string   `env:"-" short:"o" placeholder:"FILE" help:"File to write; standard output when empty."`
}

// Help is shown below the description of the command.
func (gateCommand) Help() string {
	return `Exit codes: 0 the version is not worse; 1 it is worse (or the command failed); 3 inconclusive.`
}

// Run gates the skill in a folder. Nothing is published.
func (c *gateCommand) Run(ctx context.Context, p *term.Program) error {
	packed, err := folder.Pack(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer packed.Close()
	if c.Entry == "" {
		skill, err := packed.Package.Skill()
		if err != nil {
			return err
		}
		c.Entry = skill.Name
	}
	return c.withSession(p, func(s *session) error {
		o := gating.Options{Archive: packed.Archive, Trials: c.Trials, MinCases: c.MinCases}
		entry, err := s.EntryByName(ctx, c.Entry)
		if err != nil {
			return err
		}
		o.Entry = entry.Entry
		if c.Against != "current" {
			o.Against = c.Against
		}
		for _, name := range c.Suite {
			id, err := s.suiteID(ctx, name)
			if err != nil {
				return err
			}
			o.Suites = append(o.Suites, id)
		}
		progress := p.Progress()
		o.Progress = func(done, total int) { progress.Show("Running  %d of %s", done, term.Count(total, "trial")) }
		gate, err := gating.Compare(ctx, s.Client, o)
		progress.Clear()
		if err != nil {
			return err
		}
		err = c.write(p, func(w io.Writer) error {
			return gating.Write(w, gate, c.Format, path.Join(filepath.ToSlash(c.Dir), "SKILL.md"))
		})
		if err != nil {
			return err
		}
		return map[string]error{"block": term.ErrPrinted, "inconclusive": term.ExitCode(term.ExitInconclusive)}[*gate.Verdict]
	})
}

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
