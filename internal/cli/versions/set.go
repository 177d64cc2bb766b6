package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// setCommands are the commands `whetstone set`.
type setCommands struct {
	List    setList    `cmd:"" help:"List sets: the skills that teams and projects should have."`
	Show    setShow    `cmd:"" help:"Show a set with the versions that it gives."`
	Create  setCreate  `cmd:"" help:"Make a set."`
	Add     setAdd     `cmd:"" help:"Add skills to a set, or change their ranges."`
	Remove  setRemove  `cmd:"" help:"Take skills out of a set."`
	Install setInstall `cmd:"" help:"Install all skills of a set."`
}

// setList lists sets.
type setList struct {
	server.Flags `embed:""`
	Mine         bool   `env:"-" help:"Only sets of your teams."`
	Repository   string `env:"-" placeholder:"OWNER/REPO" help:"Only sets that checkouts of this repository should have."`
}

// Run lists sets by name.
func (c *setList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		all, err := s.Sets(ctx, client.SetFilter{Mine: c.Mine, Repository: c.Repository})
		if err != nil {
			return err
		}
		return term.List[api.Set]{
			None: "No sets; `whetstone set create NAME` makes one.",
			Head: "NAME\tSKILLS\tTEAMS\tREPOSITORIES\tDESCRIPTION",
			Row: func(set api.Set) []any {
				about := ""
				if set.Description != nil {
					about = *set.Description
				}
				return []any{
					set.Name, len(set.Entries), len(set.Teams), term.Cell(strings.Join(set.Repositories, ", ")), term.Cell(about),
				}
			},
		}.Print(p, all)
	})
}

// setName is the argument of the commands about one set.
type setName struct {
	server.Flags `embed:""`
	Set          string `arg:"" name:"set" names:"sets" help:"Name or id of the set."`
}

// with finds the set, and calls do.
func (c *setName) with(ctx context.Context, p *term.Program, do func(s *server.Session, set api.Set) error) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.SetID(ctx, c.Set)
		if err != nil {
			return err
		}
		set, err := s.Set(ctx, id)
		if err != nil {
			return err
		}
		return do(s, set)
	})
}

// setShow prints one set.
type setShow struct {
	setName `embed:""`
}

// Run prints a set with the versions that it gives.
func (c *setShow) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(_ *server.Session, set api.Set) error { return printSet(p, set) })
}

func printSet(p *term.Program, set api.Set) error {
	return p.Print(set, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s, %d tokens in Claude Code, %d in Codex\n", set.Name, term.Count(len(set.Entries), "skill"),
			set.Catalogue.ClaudeCode.Tokens, set.Catalogue.Codex.Tokens)
		for _, e := range set.Entries {
			versions, given := "current", "nothing is published in the range"
			if e.Range != nil {
				versions = *e.Range
			}
			if e.Version != nil {
				given = *e.Version
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", term.Plain(e.Name), term.Plain(versions), term.Plain(given))
		}
	})
}

// setCreate has the flags of a new set.
type setCreate struct {
	server.Flags `embed:""`
	Name         string   `arg:"" help:"Name of the set: lower-case letters, digits and dashes."`
	Skills       []string `arg:"" optional:"" name:"skill" names:"entries" help:"Skills that it has, as NAME or 'NAME RANGE', e.g. 'pdf-tables ^1.2'."`
	Description  string   `env:"-" help:"What it is for."`
	Repository   []string `env:"-" placeholder:"OWNER/REPO" help:"Repository whose checkouts should have it, or a glob. Repeatable."`
	Team         []string `env:"-" placeholder:"ID" help:"Id of a team whose members should have it. Repeatable."`
	Required     bool     `env:"-" help:"Its teams must have it."`
}

// Run makes a set.
func (c *setCreate) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		set, err := s.CreateSet(ctx, api.NewSet{
			Name: c.Name, Description: c.Description, Entries: wantedSkills(c.Skills), Teams: c.Team, Repositories: c.Repository,
			Required: c.Required,
		})
		if err != nil {
			return err
		}
		return printSet(p, set)
	})
}

// wantedSkills reads arguments such as "pdf-tables" and "pdf-tables ^1.2".
func wantedSkills(all []string) []api.WantedSetEntry {
	wanted := make([]api.WantedSetEntry, len(all))
	for i, text := range all {
		name, versions, _ := strings.Cut(strings.TrimSpace(text), " ")
		wanted[i].Name = name
		if server.IsID(name) {
			wanted[i] = api.WantedSetEntry{EntryID: name}
		}
		if versions = strings.TrimSpace(versions); versions != "" {
			wanted[i].Range = &versions
		}
	}
	return wanted
}

// setAdd adds skills to a set.
type setAdd struct {
	setName `embed:""`
	Skills  []string `arg:"" name:"skill" names:"entries" help:"Skills to add, as NAME or 'NAME RANGE', e.g. 'pdf-tables ^1.2'."`
}

// Run adds skills, in place of those of the same names.
func (c *setAdd) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session, set api.Set) error {
		added := wantedSkills(c.Skills)
		kept := slices.DeleteFunc(set.Entries, func(e api.SetEntry) bool {
			return slices.ContainsFunc(added, func(w api.WantedSetEntry) bool { return w.Name == e.Name || w.EntryID == e.EntryID })
		})
		return replaceEntries(ctx, p, s, set, append(sameEntries(kept), added...))
	})
}

// setRemove takes skills out of a set.
type setRemove struct {
	setName `embed:""`
	Skills  []string `arg:"" name:"skill" names:"entries" help:"Names or ids of skills to take out."`
}

// Run takes skills out. One that the set does not have is an error.
func (c *setRemove) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session, set api.Set) error {
		kept := set.Entries
		for _, name := range c.Skills {
			named := func(e api.SetEntry) bool { return e.Name == name || e.EntryID == name }
			if !slices.ContainsFunc(kept, named) {
				return fault.New(fault.NotFound, "%s is not in the set %s; `whetstone set show %s` lists what is",
					term.Plain(name), set.Name, set.Name)
			}
			kept = slices.DeleteFunc(kept, named)
		}
		return replaceEntries(ctx, p, s, set, sameEntries(kept))
	})
}

func sameEntries(all []api.SetEntry) []api.WantedSetEntry {
	same := make([]api.WantedSetEntry, len(all))
	for i, e := range all {
		same[i] = api.WantedSetEntry{EntryID: e.EntryID, Range: e.Range}
	}
	return same
}

// replaceEntries gives a set other entries, and prints it.
func replaceEntries(ctx context.Context, p *term.Program, s *server.Session, set api.Set, entries []api.WantedSetEntry) error {
	n := api.NewSet{
		Name: set.Name, Entries: entries, Teams: set.Teams, Repositories: set.Repositories, Required: set.Required,
	}
	if set.Description != nil {
		n.Description = *set.Description
	}
	changed, err := s.ReplaceSet(ctx, set.ID, n)
	if err != nil {
		return err
	}
	return printSet(p, changed)
}

// setInstall has the flags of `whetstone set install`.
type setInstall struct {
	setName    `embed:""`
	skillsFlag `embed:""`
	Force      bool `env:"-" help:"Also replace skills that were edited; copies are kept."`
	DryRun     bool `env:"-" help:"Print what would be done, and do nothing."`
}

// Help is shown below the help of the command.
func (c setInstall) Help() string { return c.ExitCodes("3 local edits are in the way; ") }

// Run installs the versions that the set gives. Skills with local edits are kept.
func (c *setInstall) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session, set api.Set) error {
		dir, err := c.path()
		if err != nil {
			return err
		}
		if c.DryRun {
			skills, err := install.ReadLock(dir)
			if err != nil {
				return err
			}
			out := make([]syncOutput, len(set.Entries))
			for n, e := range set.Entries {
				out[n] = newSetOutput(e, skills[e.Name])
				if out[n].Status == behind {
					out[n].Status, out[n].Version = wouldUpdate, *e.Version
				}
			}
			return printSync(p, dir, out)
		}
		i, err := newInstaller(ctx, p, s, dir)
		if err != nil {
			return err
		}
		defer i.close()
		skills := i.skills()
		out := make([]syncOutput, len(set.Entries))
		for n, e := range set.Entries {
			if out[n] = newSetOutput(e, skills[e.Name]); out[n].Status == behind {
				c.install(ctx, i, e, &out[n])
			}
		}
		return printSync(p, dir, out)
	})
}

// newSetOutput says what a folder lacks of an entry of a set. Behind is also what is not there.
func newSetOutput(e api.SetEntry, record install.Record) syncOutput {
	o := syncOutput{Name: e.Name, Status: behind, Version: record.Version, Edits: []install.Edit{}}
	switch {
	case e.Version == nil:
		o.Status, o.Error = gone, "nothing is published in the range"
	case record.EntryID == e.EntryID && record.ContentHash == *e.ContentHash:
		o.Status = upToDate
	}
	if e.Version != nil {
		o.LatestVersion = *e.Version
	}
	return o
}

func (c *setInstall) install(ctx context.Context, i *installer, e api.SetEntry, o *syncOutput) {
	t := installTarget{Name: e.Name, EntryID: e.EntryID, Version: *e.Version, Hash: *e.ContentHash}
	archive, err := i.fetch(ctx, t, func(int64, int64) {})
	if err == nil {
		o.Backup, err = i.unpack(ctx, t, archive, c.Force)
	}
	if edited, ok := errors.AsType[*install.EditedError](err); ok {
		o.Status, o.Edits = modified, append(o.Edits, edited.Edits...)
		return
	}
	if err != nil {
		o.Status, o.Error = failed, term.Message(server.AsFault(err, i.Server))
		return
	}
	i.record(ctx, t)
	o.Status, o.PreviousVersion, o.Version = updated, o.Version, t.Version
}
