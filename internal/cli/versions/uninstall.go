package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// uninstallCommand has the flags of `whetstone uninstall`.
type uninstallCommand struct {
	skillsFlag `embed:""`
	Name       string `arg:"" help:"Name of the installed skill; status lists them."`
	Force      bool   `env:"-" help:"Also remove a skill that was edited, of which a copy is kept, or that another one requires."`
}

// Help is shown below the description of the command.
func (uninstallCommand) Help() string {
	return "It needs no server. Exit codes: 0 done; 1 failed; 2 a flag is not valid; 3 local edits are in the way."
}

// uninstallOutput is the result as --json prints it.
type uninstallOutput struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`
	Backup  string `json:"backup,omitempty"` // path of the copy of an edited folder
	// Unneeded are skills that were installed only because this one required them. They
	// are not removed.
	Unneeded []string `json:"no_longer_required"`
}

// Run removes the folder of a skill and its record in the lock file. It needs no
// server. The server keeps its record of the installation.
func (c *uninstallCommand) Run(ctx context.Context, p *term.Program) error {
	dir, err := c.path()
	if err != nil {
		return err
	}
	installed, err := install.ReadLock(dir)
	if err != nil {
		return err
	}
	// Checked before Open, which creates the folder.
	if _, ok := installed[c.Name]; !ok {
		return fault.New(fault.NotFound, "%s is not installed in %s; `whetstone status` lists what is", term.Plain(c.Name), dir)
	}
	f, err := install.Open(ctx, dir, func() { p.Note("waiting for another whetstone to be done with %s", dir) })
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // all writes were synced before
	// Read again: another whetstone may have changed the folder while this one
	// waited.
	record := f.Skills()[c.Name]
	if len(record.RequiredBy) > 0 && !c.Force {
		return fault.New(fault.Conflict,
			"%s requires %s, and the next sync would install it again; --force removes it all the same",
			term.Plain(strings.Join(record.RequiredBy, " and ")), term.Plain(c.Name))
	}
	backup, err := f.Remove(c.Name, c.Force)
	if edited, ok := errors.AsType[*install.EditedError](err); ok {
		p.Note("%s; --force removes it and keeps a copy", edited)
		return term.ExitCode(term.ExitEdited)
	}
	if err != nil {
		return err
	}
	out := uninstallOutput{Name: c.Name, Version: record.Version, Path: dir, Backup: backup}
	// After the removal, which may be refused: then the others stay required.
	if out.Unneeded, err = releaseRequired(f, c.Name); err != nil {
		return err
	}
	return p.Print(out, func(w io.Writer) {
		fmt.Fprintf(w, "Uninstalled %s %s from %s\n", term.Plain(out.Name), term.Plain(out.Version), dir)
		if backup != "" {
			fmt.Fprintf(w, "The folder is kept in %s\n", backup)
		}
		for _, name := range out.Unneeded {
			fmt.Fprintf(w, "%s was installed for it; `whetstone uninstall %s` removes it, too.\n", term.Plain(name),
				term.Plain(name))
		}
	})
}

// releaseRequired removes a skill from the RequiredBy of the others, and returns those
// that are left without a reason to be installed.
func releaseRequired(f *install.Folder, name string) (unneeded []string, err error) {
	unneeded = []string{}
	skills := f.Skills()
	for _, other := range slices.Sorted(maps.Keys(skills)) {
		r := skills[other]
		i := slices.Index(r.RequiredBy, name)
		if i < 0 {
			continue
		}
		// A clone: Skills copies the map but not the lists in it. With the list
		// changed in place, Put would compare the record with itself and write
		// nothing.
		r.RequiredBy = slices.Delete(slices.Clone(r.RequiredBy), i, i+1)
		// A skill that the user installed by name is wanted for itself.
		if len(r.RequiredBy) == 0 && !r.Explicit {
			unneeded = append(unneeded, other)
		}
		if err := f.Put(other, r); err != nil {
			return nil, err
		}
	}
	return unneeded, nil
}
