package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
	"github.com/whetstone-dev/whetstone/internal/local/lockfiles"
)

// frozenInstall is the command `whetstone install --frozen`: like `npm ci`, it
// reproduces a lock file exactly and never changes it. CI uses it: the same commit
// must give the same skills on every machine.
type frozenInstall struct {
	Dir   string
	Name  string // a skill of the lock file; "" for all of them
	Force bool   // replace edited folders, keeping a copy
}

// frozenOutput is a skill as --json prints it. Edits is never null: scripts iterate
// over it.
type frozenOutput struct {
	Name        string         `json:"name"`
	Status      string         `json:"status"` // installed, unchanged, modified
	Version     string         `json:"version"`
	ContentHash string         `json:"content_hash"`
	Path        string         `json:"path"`
	Edits       []install.Edit `json:"edits"`
	Backup      string         `json:"backup,omitempty"`
}

// Run installs the versions of a folder's lock file, and never writes it. All versions
// are checked first, so that nothing is installed if one is no longer available. Skills
// with local edits are kept and exit with ExitEdited, after the others were installed.
func (c frozenInstall) Run(ctx context.Context, p *term.Program, flags *server.Flags) error {
	file := filepath.Join(c.Dir, install.LockName)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "%s does not exist; `whetstone install NAME` writes it", file)
	}
	return flags.WithSession(p, func(s *server.Session) error {
		i, err := newInstaller(ctx, p, s, c.Dir)
		if err != nil {
			return err
		}
		defer i.close()
		skills := i.skills()
		// By name, so that the output does not change from run to run.
		names := slices.Sorted(maps.Keys(skills))
		if c.Name != "" {
			if _, ok := skills[c.Name]; !ok {
				return fault.New(fault.NotFound, "%s is not in %s; `whetstone install %s` adds it", term.Plain(c.Name), file,
					term.Plain(c.Name))
			}
			names = []string{c.Name}
		}
		if err := checkAvailable(ctx, s, skills, names); err != nil {
			return err
		}
		out := []frozenOutput{}
		for _, name := range names {
			o, err := c.restore(ctx, i, name, skills[name])
			if err != nil {
				return err
			}
			out = append(out, o)
		}
		if err := p.Print(out, func(w io.Writer) { c.print(w, out) }); err != nil {
			return err
		}
		if slices.ContainsFunc(out, func(o frozenOutput) bool { return o.Status == lockModified }) {
			return term.ExitCode(term.ExitEdited)
		}
		return nil
	})
}

// checkAvailable checks that the registry still has every version, with the same
// content, not withdrawn, and that the key may see it. The error lists all that are
// not.
func checkAvailable(ctx context.Context, s *server.Session, skills map[string]install.Record, names []string) error {
	queries := make([]skillQuery, len(names))
	for n, name := range names {
		r := skills[name]
		// The key of one server must not be sent to another one.
		if r.Server != s.Server {
			return fault.New(fault.Conflict, "%s is from %s; install it with --server %s", term.Plain(name),
				term.Plain(r.Server), term.Plain(r.Server))
		}
		if r.EntryID == "" || r.Version == "" || r.ContentHash == "" {
			return fault.New(fault.Conflict,
				"the lock file has no entry_id, version or content_hash of %s; `whetstone install %s` writes them",
				term.Plain(name), term.Plain(name))
		}
		queries[n] = skillQuery{
			EntryID: r.EntryID, Version: r.Version, Hashes: []lockfiles.Hash{{Kind: "archive", Hex: r.ContentHash}},
		}
	}
	answers, err := resolveSkills(ctx, s, queries)
	if err != nil {
		return err
	}
	var gone []error
	for n, name := range names {
		name, version := term.Plain(name), term.Plain(skills[name].Version)
		// The answer is in the order of the queries. Another or no entry means that
		// this one is deleted or invisible; the server does not tell which.
		switch f := answers[n]; {
		case f.EntryID != queries[n].EntryID:
			gone = append(gone, fmt.Errorf("%s is gone from the registry, or not visible with this key", name))
		case f.State == lockModified:
			gone = append(gone, fmt.Errorf("%s %s has another content in the registry than in the lock file", name, version))
		case f.State == withdrawn:
			gone = append(gone, fmt.Errorf("%s %s was withdrawn; `whetstone sync %s` installs %s", name, version, name,
				term.Plain(f.LatestVersion)))
		}
	}
	if len(gone) > 0 {
		return fault.New(fault.Conflict, "%s; nothing was installed", errors.Join(gone...))
	}
	return nil
}

// restore installs one skill, unless its folder is there unchanged. With local edits
// and without Force it is left alone, with the status "modified".
func (c frozenInstall) restore(ctx context.Context, i *installer, name string, r install.Record) (frozenOutput, error) {
	o := frozenOutput{
		Name: name, Status: "unchanged", Version: r.Version, ContentHash: r.ContentHash, Path: i.pathOf(name),
		Edits: []install.Edit{},
	}
	// Comparing the folder needs no download, so an unchanged one is quick.
	state, err := install.Inspect(c.Dir, name, r)
	if err != nil || state.Condition == install.Clean {
		return o, err
	}
	if state.Condition == install.Modified && !c.Force {
		o.Status, o.Edits = lockModified, state.Edits
		return o, nil
	}
	t := installTarget{Name: name, EntryID: r.EntryID, Version: r.Version, Hash: r.ContentHash}
	bar := i.Program.Transfer("Downloading "+term.Plain(name), 1)
	archive, err := i.fetch(ctx, t, bar.Item())
	bar.Clear()
	if err != nil {
		return o, err
	}
	if o.Backup, err = i.restore(ctx, name, archive, c.Force); err != nil {
		return o, err
	}
	o.Status = "installed"
	// Best effort: the installation is complete without the server's record.
	i.record(ctx, t)
	return o, nil
}

// print writes a line for each skill.
func (c frozenInstall) print(w io.Writer, out []frozenOutput) {
	if len(out) == 0 {
		fmt.Fprintf(w, "The lock file of %s has no skills\n", term.Plain(c.Dir))
	}
	for _, o := range out {
		text := o.Status
		switch {
		case o.Status == lockModified:
			text = "modified: kept, --force replaces it and keeps a copy"
		case o.Backup != "":
			text += ", the edited copy is in " + o.Backup
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", term.Plain(o.Name), term.Plain(o.Version), text)
	}
}
