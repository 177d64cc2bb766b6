package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// installCommand has the flags of `whetstone install`.
type installCommand struct {
	server.Flags `embed:""`
	skillsFlag   `embed:""`
	Name         string `arg:"" optional:"" names:"entries" help:"Name or id of the entry, or ORG/NAME for another organisation's; NAME@VERSION pins that version."`
	Force        bool   `env:"-" help:"Replace a folder that was edited or installed by other means; a copy is kept."`
	NoRequires   bool   `env:"-" help:"Install only this skill, not those that it requires."`
	Withdrawn    bool   `env:"-" help:"Install NAME@VERSION although that version was withdrawn."`
	Frozen       bool   `env:"-" help:"Install exactly what the folder's .whetstone-lock.json says, all of it or NAME, without changing it."`
}

// Help is shown below the help of the command.
func (c installCommand) Help() string { return c.ExitCodes("3 local edits are in the way; ") }

// installOutput is the result as --json prints it.
type installOutput struct {
	Name         string `json:"name"`
	Organisation string `json:"organisation"`
	Version      string `json:"version"`
	ContentHash  string `json:"content_hash"`
	Path         string `json:"path"`
	Pinned       bool   `json:"pinned"`
	Recorded     bool   `json:"recorded"`         // whether the server has a record of the installation
	Backup       string `json:"backup,omitempty"` // path of the copy of the replaced folder

	Required []alongOutcome `json:"required,omitempty"` // skills that were installed with it
}

// Run installs a version of an entry into the folder of skills, and then the skills
// that it requires. If one of those fails, the skill itself stays installed and the
// exit code is ExitFailed.
func (c *installCommand) Run(ctx context.Context, p *term.Program) error {
	// It has its own order of steps: nothing is resolved but by the lock file.
	if c.Frozen {
		dir, err := c.path()
		if err != nil {
			return err
		}
		return frozenInstall{Dir: dir, Name: c.Name, Force: c.Force}.Run(ctx, p, &c.Flags)
	}
	if c.Name == "" {
		return fault.Invalid("name", "name what to install; --frozen installs what the lock file says")
	}
	return c.WithSession(p, func(s *server.Session) error {
		t, err := c.resolve(ctx, p, s)
		if err != nil {
			return err
		}
		dir, err := c.path()
		if err != nil {
			return err
		}
		i, err := newInstaller(ctx, p, s, dir)
		if err != nil {
			return err
		}
		defer i.close()
		bar := p.Transfer("Downloading "+term.Plain(t.Name), 1)
		// Downloaded and verified in full before anything on the disk is touched.
		archive, err := i.fetch(ctx, t, bar.Item())
		bar.Clear()
		if err != nil {
			return err
		}
		backup, err := c.unpack(ctx, i, t, archive)
		if err != nil {
			return err
		}
		out := installOutput{
			Name: t.Name, Organisation: t.Organisation, Version: t.Version, ContentHash: t.Hash, Path: i.pathOf(t.Name),
			Pinned: t.Pinned, Recorded: i.record(ctx, t), Backup: backup,
		}
		// After the skill itself, which is usable without them.
		along, err := c.along(ctx, i, t)
		if err != nil {
			return fault.New(fault.Conflict, "%s is installed, but not what it requires: %s",
				term.Plain(t.Name), err).Because(err)
		}
		out.Required = along
		err = p.Print(out, func(w io.Writer) {
			from := ""
			if t.Foreign {
				from = " of " + term.Plain(out.Organisation)
			}
			fmt.Fprintf(w, "Installed %s %s%s in %s\n", term.Plain(out.Name), term.Plain(out.Version), from, out.Path)
			if out.Backup != "" {
				fmt.Fprintf(w, "The previous folder is in %s\n", out.Backup)
			}
			writeAlong(w, t.Organisation, out.Required)
		})
		if err == nil && slices.ContainsFunc(out.Required, func(o alongOutcome) bool { return o.Status == alongFailed }) {
			return term.ExitCode(term.ExitFailed)
		}
		return err
	})
}

// unpack installs the archive. A folder with local edits, or one that whetstone did not
// install, is replaced only with --force or after a confirmation; backup is the path of
// its copy. Otherwise it ends with ExitEdited. The question is only asked on a
// terminal.
func (c *installCommand) unpack(ctx context.Context, i *installer, t installTarget, archive []byte) (backup string, err error) {
	backup, err = i.unpack(ctx, t, archive, c.Force)
	edited, ok := errors.AsType[*install.EditedError](err)
	if !ok {
		return backup, err
	}
	reason := edited.Error()
	if !edited.Foreign {
		reason += ": " + editList(edited.Edits)
	}
	if i.Program.Confirm(ctx, reason+". Replace it and keep a copy?") {
		return i.unpack(ctx, t, archive, true)
	}
	i.Program.Note("%s; --force replaces it and keeps a copy", reason)
	return "", term.ExitCode(term.ExitEdited)
}

// maxEdits is how many edits a message lists before it says "N more".
const maxEdits = 5

// editList formats edits for a message, e.g. "SKILL.md modified, notes.txt added".
func editList(edits []install.Edit) string {
	var words []string
	for _, e := range edits[:min(len(edits), maxEdits)] {
		words = append(words, term.Plain(e.Path)+" "+string(e.Change))
	}
	if more := len(edits) - maxEdits; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	return strings.Join(words, ", ")
}

// resolve finds the version to install: NAME@VERSION pins one, a bare name means the
// current one. A public entry of another organisation must be named with its
// organisation or by its id, or be confirmed: otherwise anyone could publish under a
// name that this organisation does not use yet (name squatting) and have it installed.
func (c *installCommand) resolve(ctx context.Context, p *term.Program, s *server.Session) (installTarget, error) {
	name, version, pinned := c.Name, "", false
	// at > 0, since a name cannot be empty: "@x" is a name.
	if at := strings.LastIndex(c.Name, "@"); at > 0 {
		name, version, pinned = c.Name[:at], c.Name[at+1:], true
	}
	f, err := findEntry(ctx, s, name)
	if err != nil {
		return installTarget{}, err
	}
	e := f.Entry
	if f.foreign && !f.explicit {
		question := fmt.Sprintf("Your organisation has no entry named %s. Install the one of the organisation %s?",
			e.Name, e.Organisation)
		if !p.Confirm(ctx, question) {
			return installTarget{}, fault.New(fault.Conflict,
				"%s is an entry of the organisation %s, not of yours; to install it, name it %s",
				term.Plain(e.Name), term.Plain(e.Organisation), term.Plain(fullName(e)))
		}
	}
	// Agents look for skills in known folders; for the other types there is none.
	if e.EntryType != "skill" && c.Dir == "" {
		return installTarget{}, fault.Invalid("dir", "%s is %s %s, not a skill; name its folder with --dir",
			e.Name, article(e.EntryType), e.EntryType)
	}
	// The first match is enough: names of versions are unique in an entry.
	for _, v := range f.Versions {
		if pinned && v.Version == version || !pinned && v.IsCurrent {
			if v.State == "withdrawn" && !c.Withdrawn {
				// The flag is not suggested for an entry of another organisation.
				reason, advice := ".", ""
				if v.WithdrawnReason != nil {
					reason = ": " + term.Plain(*v.WithdrawnReason)
				}
				if !f.foreign {
					advice = "\n--withdrawn installs it all the same"
				}
				return installTarget{}, fault.New(fault.Gone, "Version %s of %s was withdrawn%s%s", term.Plain(v.Version),
					term.Plain(e.Name), reason, advice)
			}
			return installTarget{
				Name: e.Name, Organisation: e.Organisation, Foreign: f.foreign,
				EntryID: e.ID, Version: v.Version, Hash: v.ContentHash, Pinned: pinned, Withdrawn: c.Withdrawn,
			}, nil
		}
	}
	if !pinned {
		return installTarget{}, fault.New(fault.NotFound,
			"%s has no current version: the first is a candidate, or all are withdrawn; "+
				"`whetstone history %s` lists them", term.Plain(e.Name), term.Plain(name))
	}
	return installTarget{}, fault.New(fault.NotFound, "%s has no version %s; `whetstone history %s` lists them",
		term.Plain(e.Name), term.Plain(version), term.Plain(name))
}

// A foundEntry is an entry, and how it was found. foreign is true if in doubt, so
// that a person is asked.
type foundEntry struct {
	client.EntryDetail
	foreign  bool // not known to belong to the caller's organisation
	explicit bool // named with its organisation, or by its id
}

// findEntry looks an entry up by its id, as ORG/NAME, or by its name: first in the
// caller's organisation, then among the public ones of others. ORG/NAME also finds an
// unlisted one. Several public entries of one name are a conflict.
func findEntry(ctx context.Context, s *server.Session, name string) (foundEntry, error) {
	if server.IsID(name) {
		detail, err := s.Entry(ctx, name)
		if err == nil {
			own, err := s.ListEntries(ctx, client.Filter{Name: detail.Entry.Name})
			foreign := !slices.ContainsFunc(own, func(e client.ListedEntry) bool { return e.ID == name })
			return foundEntry{detail, foreign, true}, err
		}
		// On 404 it may still be a name that looks like an id.
		if client.Status(err) != http.StatusNotFound {
			return foundEntry{}, err
		}
	}
	organisation, bare := "", name
	// The last slash, since names of entries have none.
	if slash := strings.LastIndex(name, "/"); slash > 0 {
		organisation, bare = name[:slash], name[slash+1:]
	}
	// The own organisation first, so that its entry hides a public one of the name.
	for _, public := range []bool{false, true} {
		filter := client.Filter{Name: bare, Public: public}
		if public {
			filter.Organisation = organisation
		}
		entries, err := s.ListEntries(ctx, filter)
		if err != nil {
			return foundEntry{}, err
		}
		if organisation != "" {
			entries = slices.DeleteFunc(entries, func(e client.ListedEntry) bool { return e.Organisation != organisation })
		}
		if len(entries) > 1 {
			var names []string
			for _, e := range entries {
				names = append(names, term.Plain(fullName(e.OwnedEntry)))
			}
			return foundEntry{}, fault.New(fault.Conflict, "Several organisations have a public %s; name one: %s",
				term.Plain(bare), strings.Join(names, ", "))
		}
		if len(entries) == 1 {
			detail, err := s.Entry(ctx, entries[0].ID)
			return foundEntry{detail, public, organisation != ""}, err
		}
	}
	return foundEntry{}, fault.New(fault.NotFound, "No entry is named %s; `whetstone list` lists them", term.Plain(name))
}

// fullName returns ORG/NAME, by which every organisation can install an entry, or the
// id if the server does not send the organisation (an older version).
func fullName(e client.OwnedEntry) string {
	if e.Organisation == "" {
		return e.ID
	}
	return e.Organisation + "/" + e.Name
}
