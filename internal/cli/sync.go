package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/install"
)

type syncCommand struct {
	remote     `embed:""`
	folderFlag `embed:""`
	Names      []string `arg:"" optional:"" name:"name" help:"Skills to bring up to date; all when empty."`
	Force      bool     `env:"-" help:"Also replace skills that were edited; copies are kept."`
	Unpin      bool     `env:"-" help:"Also move skills that were installed as NAME@VERSION, from now on."`
	DryRun     bool     `env:"-" help:"Print what would be done, and do nothing."`
}

// What became of a skill, beside its standing.
const (
	updated     standing = "updated"
	wouldUpdate standing = "would_update"
	failed      standing = "failed"
)

type syncOutput struct {
	Name            string         `json:"name"`
	Status          standing       `json:"status"`
	Version         string         `json:"version"` // that is installed now
	PreviousVersion string         `json:"previous_version,omitempty"`
	LatestVersion   string         `json:"latest_version"`
	Edits           []install.Edit `json:"edits"`
	Backup          string         `json:"backup,omitempty"`
	Error           string         `json:"error,omitempty"`
}

// Run brings the skills of a folder to the current versions of the registry,
// newer or, after a rollback, older.
func (c *syncCommand) Run(ctx context.Context, p *Program) error {
	dir, err := c.path()
	if err != nil {
		return err
	}
	skills, err := install.ReadLock(dir)
	if err != nil {
		return err
	}
	if len(skills) == 0 && len(c.Names) == 0 {
		return p.printSync(dir, []syncOutput{})
	}
	return c.with(p, func(s *session) error {
		if c.DryRun {
			all, err := s.survey(ctx, dir, skills, c.Names)
			if err != nil {
				return err
			}
			out := c.rehearse(all, s.server)
			return p.print(out, func(w io.Writer) { writeSync(w, dir, out) })
		}
		i, err := p.newInstaller(ctx, s, dir)
		if err != nil {
			return err
		}
		defer i.close()
		all, err := s.survey(ctx, dir, i.folder.Skills(), c.Names)
		if err != nil {
			return err
		}
		return p.printSync(dir, c.update(ctx, i, all))
	})
}

// rehearse tells what an update would do.
func (c *syncCommand) rehearse(all []installed, server string) []syncOutput {
	out := make([]syncOutput, len(all))
	for n, found := range all {
		out[n] = newSyncOutput(found, server)
		if t, ok := c.wanted(found, server); ok {
			out[n].Status, out[n].PreviousVersion, out[n].Version = wouldUpdate, found.record.Version, t.version
		}
	}
	return out
}

func newSyncOutput(found installed, server string) syncOutput {
	return syncOutput{
		Name: found.name, Status: found.standing(server), Version: found.record.Version,
		LatestVersion: found.latestVersion(), Edits: append([]install.Edit{}, found.state.Edits...),
	}
}

// wanted returns what has to be installed in the place of a skill, if
// anything.
func (c *syncCommand) wanted(found installed, server string) (target, bool) {
	move := false
	switch found.standing(server) {
	case behind, missing:
		move = true
	case modified:
		move = c.Force
	case pinned:
		move = c.Unpin
	default: // there is nothing to be had, or nothing to be done
	}
	if !move {
		return target{}, false
	}
	t := target{name: found.name, entryID: found.record.EntryID}
	if found.record.Pinned && !c.Unpin {
		t.version, t.hash, t.pinned = found.record.Version, found.record.ContentHash, true
		return t, true
	}
	t.version, t.hash, t.link = found.latest.LatestVersion, found.latest.LatestContentHash, found.latest.DownloadURL
	return t, true
}

// atOnce is how many skills are downloaded at the same time.
const atOnce = 4

// update installs what is wanted. What goes wrong with one skill does not
// keep the others from their updates.
func (c *syncCommand) update(ctx context.Context, i *installer, all []installed) []syncOutput {
	out := make([]syncOutput, len(all))
	targets := map[int]target{}
	for n, found := range all {
		out[n] = newSyncOutput(found, i.server)
		if t, ok := c.wanted(found, i.server); ok {
			targets[n] = t
		}
	}
	bar := i.program.meter("Downloading", len(targets))
	defer bar.clear()
	var g errgroup.Group
	g.SetLimit(atOnce)
	for n, t := range targets {
		g.Go(func() error {
			defer bar.finish()
			archive, err := i.fetch(ctx, t, bar.part())
			if err == nil {
				out[n].Backup, err = i.put(ctx, t, archive, c.Force)
			}
			if err == nil {
				i.record(ctx, t)
			}
			out[n].become(t, asFault(err, i.server))
			return nil
		})
	}
	_ = g.Wait() // each skill has its own error
	return out
}

// become notes what came of an update.
func (o *syncOutput) become(t target, err error) {
	edited, ok := errors.AsType[*install.EditedError](err)
	switch {
	case err == nil:
		o.Status, o.PreviousVersion, o.Version = updated, o.Version, t.version
	case ok: // in the last moment
		o.Status, o.Edits = modified, edited.Edits
	default:
		o.Status, o.Error = failed, message(err)
	}
}

// printSync prints the results and ends the command as they deserve.
func (p *Program) printSync(dir string, out []syncOutput) error {
	if err := p.print(out, func(w io.Writer) { writeSync(w, dir, out) }); err != nil {
		return err
	}
	code := ExitOK
	for _, o := range out {
		switch {
		case o.Status == failed:
			code = ExitFailed
		case o.Status == modified && code == ExitOK:
			code = ExitEdited
		}
	}
	if code != ExitOK {
		return exitCode(code)
	}
	return nil
}

func writeSync(w io.Writer, dir string, out []syncOutput) {
	if len(out) == 0 {
		fmt.Fprintf(w, "Nothing is installed in %s\n", dir)
		return
	}
	counts := map[standing]int{}
	for _, o := range out {
		counts[o.Status]++
		fmt.Fprintf(w, "%s\t%s\t%s\n", plain(o.Name), plain(o.versions()), o.words())
	}
	var parts []string
	for _, s := range []standing{updated, wouldUpdate, upToDate, pinned, modified, gone, otherServer, failed} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], strings.ReplaceAll(string(s), "_", " ")))
		}
	}
	fmt.Fprintf(w, "%s: %s\n", count(len(out), "skill"), strings.Join(parts, ", "))
}

func (o syncOutput) versions() string {
	if o.PreviousVersion != "" && o.PreviousVersion != o.Version {
		return o.PreviousVersion + " -> " + o.Version
	}
	return o.Version
}

func (o syncOutput) words() string {
	switch o.Status {
	case modified:
		return "modified: " + editList(o.Edits) + "; left alone, --force replaces it and keeps a copy"
	case pinned:
		return "pinned, latest is " + plain(o.LatestVersion)
	case gone:
		return "gone from the registry, left alone"
	case otherServer:
		return "of another server, left alone"
	case failed:
		return "failed: " + plain(o.Error)
	case updated:
		if o.Backup != "" {
			return "updated, the edited copy is in " + o.Backup
		}
		return "updated"
	default:
		return strings.ReplaceAll(string(o.Status), "_", " ")
	}
}
