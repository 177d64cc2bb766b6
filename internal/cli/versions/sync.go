package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// syncCommand has the flags of `whetstone sync`.
type syncCommand struct {
	server.Flags `embed:""`
	skillsFlag   `embed:""`
	Names        []string `arg:"" optional:"" name:"name" help:"Skills to update; all when empty."`
	Force        bool     `env:"-" help:"Also replace skills that were edited; copies are kept."`
	Unpin        bool     `env:"-" help:"Also update skills that were installed as NAME@VERSION, now and in the future."`
	NoRequires   bool     `env:"-" help:"Do not install skills that the updated ones require."`
	DryRun       bool     `env:"-" help:"Print what would be done, and do nothing."`
}

// Help is shown below the help of the command.
func (c syncCommand) Help() string { return c.ExitCodes("3 local edits are in the way; ") }

// The results of an update; a skill that was not updated keeps its drift.
const (
	updated     drift = "updated"
	wouldUpdate drift = "would_update"
	failed      drift = "failed"
)

// syncOutput is a skill as --json prints it. One skill appears once, also if it was
// updated and is required by others.
type syncOutput struct {
	Name            string         `json:"name"`
	Status          drift          `json:"status"`
	Version         string         `json:"version"` // the version that is installed now
	PreviousVersion string         `json:"previous_version,omitempty"`
	LatestVersion   string         `json:"latest_version"`
	Edits           []install.Edit `json:"edits"`
	Backup          string         `json:"backup,omitempty"`
	Error           string         `json:"error,omitempty"`
	RequiredBy      []string       `json:"required_by,omitempty"` // set if it is installed because these require it
}

// Run installs the current versions of a folder's skills: newer ones or, after a
// rollback, older ones. Skills with local edits are kept. It exits with ExitEdited if
// there are some, and with ExitFailed if a skill failed; the others are updated all the
// same.
func (c *syncCommand) Run(ctx context.Context, p *term.Program) error {
	dir, err := c.path()
	if err != nil {
		return err
	}
	skills, err := install.ReadLock(dir)
	if err != nil {
		return err
	}
	// Without a login: there is nothing to ask the server for.
	if len(skills) == 0 && len(c.Names) == 0 {
		return printSync(p, dir, []syncOutput{})
	}
	return c.WithSession(p, func(s *server.Session) error {
		// A dry run takes no lock: it changes nothing, and must not wait for an
		// update.
		if c.DryRun {
			all, err := compareInstalled(ctx, s, dir, skills, c.Names)
			if err != nil {
				return err
			}
			out := make([]syncOutput, len(all))
			for n, skill := range all {
				out[n] = newSyncOutput(skill, s.Server)
				if t, ok := c.updateFor(skill, s.Server); ok {
					out[n].Status, out[n].PreviousVersion, out[n].Version = wouldUpdate, skill.record.Version, t.Version
				}
			}
			if out, err = c.wouldAlong(ctx, s, skills, out); err != nil {
				return err
			}
			return p.Print(out, func(w io.Writer) { writeSync(w, dir, out) })
		}
		i, err := newInstaller(ctx, p, s, dir)
		if err != nil {
			return err
		}
		defer i.close()
		// Read the lock file again under the folder's lock: another process may have
		// installed something since ReadLock.
		all, err := compareInstalled(ctx, s, dir, i.skills(), c.Names)
		if err != nil {
			return err
		}
		out, err := c.along(ctx, i, c.update(ctx, i, all))
		if err != nil {
			return err
		}
		return printSync(p, dir, out)
	})
}

// newSyncOutput returns the output of a skill before it is updated. Version and
// Status are replaced if the update succeeds.
func newSyncOutput(skill installedSkill, server string) syncOutput {
	return syncOutput{
		Name: skill.name, Status: skill.drift(server), Version: skill.record.Version,
		LatestVersion: skill.latestVersion(), Edits: append([]install.Edit{}, skill.state.Edits...),
	}
}

// updateFor returns the version to install in place of a skill; ok is false if it is to
// be left alone.
func (c *syncCommand) updateFor(skill installedSkill, server string) (t installTarget, ok bool) {
	switch skill.drift(server) {
	case behind, missing:
		ok = true
	case modified:
		ok = c.Force
	case pinned:
		ok = c.Unpin
	default: // up to date, or not available from this server
	}
	if !ok {
		return installTarget{}, false
	}
	t = installTarget{Name: skill.name, EntryID: skill.record.EntryID}
	// A pinned skill that is missing or was edited gets its pinned version, not the
	// latest.
	if skill.record.Pinned && !c.Unpin {
		t.Version, t.Hash, t.Pinned = skill.record.Version, skill.record.ContentHash, true
		return t, true
	}
	// The link saves a request for each skill; without one, fetch asks for it.
	t.Version, t.Hash, t.Link = skill.latest.LatestVersion, skill.latest.LatestContentHash, skill.latest.DownloadURL
	return t, true
}

// parallelDownloads limits how many skills are downloaded at the same time. Each is
// held in memory, up to the size limit of an archive, until its hash is verified.
const parallelDownloads = 4

// update installs the versions that updateFor selects, and returns an output for each
// skill in the order of all. A failure of one skill does not affect the others.
func (c *syncCommand) update(ctx context.Context, i *installer, all []installedSkill) []syncOutput {
	out := make([]syncOutput, len(all))
	targets := map[int]installTarget{}
	for n, skill := range all {
		out[n] = newSyncOutput(skill, i.Server)
		if t, ok := c.updateFor(skill, i.Server); ok {
			targets[n] = t
		}
	}
	// One bar for all of them: several would overwrite each other.
	bar := i.Program.Transfer("Downloading", len(targets))
	defer bar.Clear()
	var g errgroup.Group
	g.SetLimit(parallelDownloads)
	for n, t := range targets {
		// Each goroutine writes only to its own out[n], so out needs no lock.
		g.Go(func() error {
			defer bar.Finish()
			archive, err := i.fetch(ctx, t, bar.Item())
			if err == nil {
				out[n].Backup, err = i.unpack(ctx, t, archive, c.Force)
			}
			if err == nil {
				i.record(ctx, t)
			}
			o, err := &out[n], server.AsFault(err, i.Server)
			edited, ok := errors.AsType[*install.EditedError](err)
			switch {
			case err == nil:
				o.Status, o.PreviousVersion, o.Version = updated, o.Version, t.Version
			case ok: // edited since compareInstalled
				o.Status, o.Edits = modified, edited.Edits
			default:
				o.Status, o.Error = failed, term.Message(err)
			}
			return nil
		})
	}
	_ = g.Wait() // goroutines return no errors; those of skills are in out
	return out
}

// printSync prints the results and sets the exit code: a failure outweighs local edits.
func printSync(p *term.Program, dir string, out []syncOutput) error {
	if err := p.Print(out, func(w io.Writer) { writeSync(w, dir, out) }); err != nil {
		return err
	}
	code := term.ExitOK
	for _, o := range out {
		switch {
		case o.Status == failed:
			code = term.ExitFailed
		case o.Status == modified && code == term.ExitOK:
			code = term.ExitEdited
		}
	}
	if code != term.ExitOK {
		return term.ExitCode(code)
	}
	return nil
}

// writeSync prints a line for each skill, and the number of skills by status.
func writeSync(w io.Writer, dir string, out []syncOutput) {
	if len(out) == 0 {
		fmt.Fprintf(w, "Nothing is installed in %s\n", dir)
		return
	}
	counts := map[drift]int{}
	for _, o := range out {
		counts[o.Status]++
		fmt.Fprintf(w, "%s\t%s\t%s\n", term.Plain(o.Name), term.Plain(o.versions()), o.statusText())
	}
	var parts []string
	// The order is that of interest: what was done first, what failed last.
	for _, s := range []drift{
		updated, wouldUpdate, "installed", "would_install", "kept", upToDate, pinned, modified, gone,
		otherServer, failed,
	} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], strings.ReplaceAll(string(s), "_", " ")))
		}
	}
	fmt.Fprintf(w, "%s: %s\n", term.Count(len(out), "skill"), strings.Join(parts, ", "))
}

// versions formats the change of versions, e.g. "1.0.0 -> 1.1.0".
func (o syncOutput) versions() string {
	if o.PreviousVersion != "" && o.PreviousVersion != o.Version {
		return o.PreviousVersion + " -> " + o.Version
	}
	return o.Version
}

// statusText formats the status for people.
func (o syncOutput) statusText() string {
	switch o.Status {
	case modified:
		return "modified: " + editList(o.Edits) + "; kept, --force replaces it and keeps a copy"
	case pinned:
		return "pinned, latest is " + term.Plain(o.LatestVersion)
	case gone:
		return "gone from the registry, kept"
	case otherServer:
		return "from another server, kept"
	case failed:
		return "failed: " + term.Plain(o.Error)
	case updated:
		if o.Backup != "" {
			return "updated, the edited copy is in " + o.Backup
		}
		return "updated"
	default:
		text := strings.ReplaceAll(string(o.Status), "_", " ")
		if o.RequiredBy != nil {
			text += ", required by " + term.Plain(strings.Join(o.RequiredBy, ", "))
		}
		return strings.TrimSuffix(text+": "+term.Plain(o.Error), ": ")
	}
}
