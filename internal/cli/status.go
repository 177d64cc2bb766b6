package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/install"
)

// A standing is how an installed skill relates to the registry.
type standing string

// The standings.
const (
	upToDate    standing = "up_to_date"
	behind      standing = "behind" // also of a version that was rolled back
	modified    standing = "modified"
	missing     standing = "missing" // the lock file has it, the folder does not
	pinned      standing = "pinned"
	gone        standing = "gone" // no longer in the registry, or not for this key
	otherServer standing = "other_server"
)

// An installed is a skill of the lock file, as it was found.
type installed struct {
	name   string
	record install.Record
	state  install.State
	latest *client.SyncEntry // nil if the server has none
}

func (i installed) standing(server string) standing {
	switch {
	case i.record.Server != server:
		return otherServer
	case i.latest == nil:
		return gone
	case i.state.Condition == install.Missing:
		return missing
	case i.state.Condition == install.Modified:
		return modified
	case i.record.Pinned:
		return pinned
	case i.record.ContentHash == i.latest.LatestContentHash:
		return upToDate
	}
	return behind
}

// hash is what the server is told of the folder. One that was edited has the
// hash of no version.
func (i installed) hash() string {
	switch i.state.Condition {
	case install.Missing:
		return client.NoHash
	case install.Modified:
		return i.state.Digest
	case install.Clean:
	}
	return i.record.ContentHash
}

func (i installed) latestVersion() string {
	if i.latest == nil {
		return ""
	}
	return i.latest.LatestVersion
}

// survey looks at the skills of a lock file, all or those named, and asks the
// server for the latest versions of its own. It tells the server what is
// there.
func (s *session) survey(ctx context.Context, dir string, skills map[string]install.Record, names []string) ([]installed, error) {
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(skills))
	}
	device := deviceID()
	var all []installed
	var items []client.SyncItem
	for _, name := range names {
		record, ok := skills[name]
		if !ok {
			return nil, fault.New(fault.NotFound, "%s is not installed in %s", plain(name), dir)
		}
		state, err := install.Inspect(dir, name, record)
		if err != nil {
			return nil, err
		}
		found := installed{name: name, record: record, state: state}
		all = append(all, found)
		if record.Server == s.server {
			items = append(items, client.SyncItem{
				EntryID: record.EntryID, CurrentVersionHash: found.hash(), DeviceID: device, InstallPath: filepath.Join(dir, name),
			})
		}
	}
	if len(items) == 0 {
		return all, nil
	}
	entries, err := s.Sync(ctx, items)
	if err != nil {
		return nil, err
	}
	latest := map[string]*client.SyncEntry{}
	for _, e := range entries {
		latest[e.EntryID] = &e
	}
	for n := range all {
		if all[n].record.Server == s.server {
			all[n].latest = latest[all[n].record.EntryID]
		}
	}
	return all, nil
}

type statusCommand struct {
	remote     `embed:""`
	folderFlag `embed:""`
	Names      []string `arg:"" optional:"" name:"name" help:"Skills to ask about; all when empty."`
}

type statusOutput struct {
	Name          string         `json:"name"`
	Status        standing       `json:"status"`
	Version       string         `json:"version"`
	LatestVersion string         `json:"latest_version"`
	Pinned        bool           `json:"pinned"`
	Server        string         `json:"server"`
	EntryID       string         `json:"entry_id"`
	Path          string         `json:"path"`
	Edits         []install.Edit `json:"edits"`
}

// Run tells how the installed skills relate to the registry.
func (c *statusCommand) Run(ctx context.Context, p *Program) error {
	dir, err := c.path()
	if err != nil {
		return err
	}
	skills, err := install.ReadLock(dir)
	if err != nil {
		return err
	}
	out := []statusOutput{}
	if len(skills) > 0 || len(c.Names) > 0 {
		err = c.with(p, func(s *session) error {
			all, err := s.survey(ctx, dir, skills, c.Names)
			for _, found := range all {
				out = append(out, newStatusOutput(found, s.server, dir))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := p.print(out, func(w io.Writer) { printStatus(w, dir, out) }); err != nil {
		return err
	}
	if slices.ContainsFunc(out, statusOutput.outdated) {
		return exitCode(ExitOutdated)
	}
	return nil
}

func newStatusOutput(found installed, server, dir string) statusOutput {
	return statusOutput{
		Name: found.name, Status: found.standing(server), Version: found.record.Version, LatestVersion: found.latestVersion(),
		Pinned: found.record.Pinned, Server: found.record.Server, EntryID: found.record.EntryID,
		Path: filepath.Join(dir, found.name), Edits: append([]install.Edit{}, found.state.Edits...),
	}
}

func (o statusOutput) outdated() bool {
	return o.Status != upToDate && o.Status != pinned && o.Status != otherServer
}

func printStatus(w io.Writer, dir string, out []statusOutput) {
	if len(out) == 0 {
		fmt.Fprintf(w, "Nothing is installed in %s\n", dir)
		return
	}
	fmt.Fprintln(w, "NAME\tINSTALLED\tLATEST\tSTATUS")
	for _, o := range out {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", plain(o.Name), plain(o.Version), plain(o.LatestVersion), o.words())
	}
}

func (o statusOutput) words() string {
	switch o.Status {
	case upToDate:
		return "up to date"
	case modified:
		return "modified: " + editList(o.Edits)
	case gone:
		return "gone from the registry"
	case otherServer:
		return "of " + plain(o.Server)
	default:
		return string(o.Status)
	}
}
