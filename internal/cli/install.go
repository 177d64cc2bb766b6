package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/install"
)

type installCommand struct {
	remote     `embed:""`
	folderFlag `embed:""`
	Name       string `arg:"" help:"Name or id of the entry, or ORG/NAME for another organisation's; NAME@VERSION stays with that version."`
	Force      bool   `env:"-" help:"Replace a folder that was edited or is not ours; a copy is kept."`
}

type installOutput struct {
	Name         string `json:"name"`
	Organisation string `json:"organisation"`
	Version      string `json:"version"`
	ContentHash  string `json:"content_hash"`
	Path         string `json:"path"`
	Pinned       bool   `json:"pinned"`
	Recorded     bool   `json:"recorded"`         // the server knows of the installation
	Backup       string `json:"backup,omitempty"` // where the replaced folder is
}

// Run installs a version of an entry into the folder of skills.
func (c *installCommand) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		t, err := c.target(ctx, p, s)
		if err != nil {
			return err
		}
		dir, err := c.path()
		if err != nil {
			return err
		}
		i, err := p.newInstaller(ctx, s, dir)
		if err != nil {
			return err
		}
		defer i.close()
		bar := p.meter("Downloading "+plain(t.name), 1)
		archive, err := i.fetch(ctx, t, bar.part())
		bar.clear()
		if err != nil {
			return err
		}
		backup, err := c.put(ctx, i, t, archive)
		if err != nil {
			return err
		}
		out := installOutput{
			Name: t.name, Organisation: t.organisation, Version: t.version, ContentHash: t.hash, Path: i.pathOf(t.name),
			Pinned: t.pinned, Recorded: i.record(ctx, t), Backup: backup,
		}
		return p.print(out, func(w io.Writer) {
			of := ""
			if t.foreign {
				of = " of " + plain(out.Organisation)
			}
			fmt.Fprintf(w, "Installed %s %s%s in %s\n", plain(out.Name), plain(out.Version), of, out.Path)
			if out.Backup != "" {
				fmt.Fprintf(w, "What was there is in %s\n", out.Backup)
			}
		})
	})
}

// put installs the archive. What somebody has edited is replaced only if that
// person says so.
func (c *installCommand) put(ctx context.Context, i *installer, t target, archive []byte) (backup string, err error) {
	backup, err = i.put(ctx, t, archive, c.Force)
	edited, ok := errors.AsType[*install.EditedError](err)
	if !ok {
		return backup, err
	}
	if i.program.ask(ctx, describe(edited)+". Replace it, and keep a copy?") {
		return i.put(ctx, t, archive, true)
	}
	i.program.note("%s; --force replaces it and keeps a copy", describe(edited))
	return "", exitCode(ExitEdited)
}

// describe says what is in the way of an installation.
func describe(e *install.EditedError) string {
	if e.Foreign {
		return e.Error()
	}
	return e.Error() + ": " + editList(e.Edits)
}

// maxEdits is how many edits are listed one by one.
const maxEdits = 5

func editList(edits []install.Edit) string {
	var words []string
	for _, e := range edits[:min(len(edits), maxEdits)] {
		words = append(words, plain(e.Path)+" "+string(e.Change))
	}
	if more := len(edits) - maxEdits; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	return strings.Join(words, ", ")
}

// target finds the version that is meant. A public entry of another organisation
// is meant if it was named with its organisation or by its id, or if the person
// says so: anybody can publish under a name that this organisation does not have.
func (c *installCommand) target(ctx context.Context, p *Program, s *session) (target, error) {
	name, version, pinned := c.Name, "", false
	if at := strings.LastIndex(c.Name, "@"); at > 0 {
		name, version, pinned = c.Name[:at], c.Name[at+1:], true
	}
	f, err := s.find(ctx, name)
	if err != nil {
		return target{}, err
	}
	e := f.Entry
	if f.foreign && !f.named {
		question := fmt.Sprintf("Your organisation has no entry named %s. Install that of the organisation %s?", e.Name, e.Organisation)
		if !p.ask(ctx, question) {
			return target{}, fault.New(fault.Conflict, "%s is an entry of the organisation %s, not of yours; to install it, name it %s",
				plain(e.Name), plain(e.Organisation), plain(fullName(e)))
		}
	}
	if e.EntryType != "skill" && c.Dir == "" {
		return target{}, fault.Invalid("dir", "%s is %s %s, not a skill; say with --dir where it goes", e.Name, article(e.EntryType), e.EntryType)
	}
	for _, v := range f.Versions {
		if pinned && v.Version == version || !pinned && v.IsCurrent {
			return target{
				name: e.Name, organisation: e.Organisation, foreign: f.foreign,
				entryID: e.ID, version: v.Version, hash: v.ContentHash, pinned: pinned,
			}, nil
		}
	}
	return target{}, fault.New(fault.NotFound, "%s has no version %s; `whetstone history %s` lists them", plain(e.Name), plain(version), plain(name))
}

var entryID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// A found entry is one that find came upon.
type found struct {
	client.EntryDetail
	foreign bool // it is not known to be of the caller's organisation
	named   bool // with its organisation, or by its id
}

// find returns an entry by its id, as ORG/NAME, or by its name: one of the
// organisation, else a public one of another.
func (s *session) find(ctx context.Context, name string) (found, error) {
	if entryID.MatchString(name) {
		detail, err := s.Entry(ctx, name)
		if err == nil {
			own, err := s.ListEntries(ctx, client.Filter{Name: detail.Entry.Name})
			foreign := !slices.ContainsFunc(own, func(e client.ListedEntry) bool { return e.ID == name })
			return found{detail, foreign, true}, err
		}
		if client.Status(err) != http.StatusNotFound {
			return found{}, err
		}
	}
	organisation, bare := "", name
	if slash := strings.LastIndex(name, "/"); slash > 0 {
		organisation, bare = name[:slash], name[slash+1:]
	}
	for _, public := range []bool{false, true} {
		entries, err := s.ListEntries(ctx, client.Filter{Name: bare, Public: public})
		if err != nil {
			return found{}, err
		}
		if organisation != "" {
			entries = slices.DeleteFunc(entries, func(e client.ListedEntry) bool { return e.Organisation != organisation })
		}
		if len(entries) > 1 {
			return found{}, ambiguous(entries)
		}
		if len(entries) == 1 {
			detail, err := s.Entry(ctx, entries[0].ID)
			return found{detail, public, organisation != ""}, err
		}
	}
	return found{}, fault.New(fault.NotFound, "No entry is named %s; `whetstone list` lists them", plain(name))
}

// fullName names an entry wherever it is asked for.
func fullName(e client.Entry) string {
	if e.Organisation == "" { // an older server does not say
		return e.ID
	}
	return e.Organisation + "/" + e.Name
}

func ambiguous(entries []client.ListedEntry) error {
	var names []string
	for _, e := range entries {
		names = append(names, plain(fullName(e.Entry)))
	}
	return fault.New(fault.Conflict, "Several organisations have a public %s; name one: %s", plain(entries[0].Name), strings.Join(names, ", "))
}
