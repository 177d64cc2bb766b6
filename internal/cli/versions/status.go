package versions

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// A drift is the difference between an installed skill and the registry. Its values are
// part of the output of --json.
type drift string

// The drifts that status reports; sync adds those of an update.
const (
	upToDate    drift = "up_to_date"
	behind      drift = "behind"       // another version is current: a newer one, or an older one after a rollback
	modified    drift = "modified"     // local edits
	missing     drift = "missing"      // in the lock file, but not in the folder
	pinned      drift = "pinned"       // installed as NAME@VERSION
	gone        drift = "gone"         // no longer in the registry, or not visible with this key
	otherServer drift = "other_server" // installed from another server
)

// An installedSkill is a skill of the lock file, its folder, and its entry. It is
// what status and sync decide by, so that the two always agree.
type installedSkill struct {
	name   string
	record install.Record
	state  install.State
	latest *api.SyncEntry // nil if this server has no such entry
}

// drift compares in this order because a skill may be several of them: edits come
// before a newer version, because an update would overwrite them.
func (i installedSkill) drift(server string) drift {
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
	// By content and not by version: a rollback makes an older version the latest.
	case i.record.ContentHash == i.latest.LatestContentHash:
		return upToDate
	}
	return behind
}

// hash returns the content hash to report to the server. An edited folder has a digest
// of its own that no version has, so the server counts it as drift. The server shows
// it on the page of the entry's installations.
func (i installedSkill) hash() string {
	switch i.state.Condition {
	case install.Missing:
		return client.NoHash
	case install.Modified:
		return i.state.Digest
	case install.Clean:
	}
	return i.record.ContentHash
}

// latestVersion returns the current version of the entry, or "" if the server has none.
func (i installedSkill) latestVersion() string {
	if i.latest == nil {
		return ""
	}
	return i.latest.LatestVersion
}

// compareInstalled reads the folders of the lock file's skills, all or the named ones,
// and asks the server for the latest versions of its own, in one request. The request
// also reports what is installed. A name that is not in the lock file is
// fault.NotFound. Skills of other servers are in the result, too, without a latest
// version.
func compareInstalled(
	ctx context.Context, s *server.Session, dir string, skills map[string]install.Record, names []string,
) ([]installedSkill, error) {
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(skills))
	}
	// Without one the server knows the installation by its path.
	device, _ := server.DeviceID()
	var all []installedSkill
	var items []client.SyncItem
	for _, name := range names {
		record, ok := skills[name]
		if !ok {
			return nil, fault.New(fault.NotFound, "%s is not installed in %s", term.Plain(name), dir)
		}
		state, err := install.Inspect(dir, name, record)
		if err != nil {
			return nil, err
		}
		skill := installedSkill{name: name, record: record, state: state}
		all = append(all, skill)
		if record.Server == s.Server {
			items = append(items, client.SyncItem{
				EntryID: record.EntryID, CurrentVersionHash: skill.hash(),
				DeviceID: device, InstallPath: filepath.Join(dir, name),
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
	latest := map[string]*api.SyncEntry{}
	for _, e := range entries {
		latest[e.EntryID] = &e
	}
	// By index: ranging over values would change copies.
	for n := range all {
		if all[n].record.Server == s.Server {
			all[n].latest = latest[all[n].record.EntryID]
		}
	}
	return all, nil
}

// statusCommand has the flags of `whetstone status`.
type statusCommand struct {
	server.Flags `embed:""`
	skillsFlag   `embed:""`
	Names        []string `arg:"" optional:"" name:"name" help:"Skills to check; all when empty."`
	Lock         []string `env:"-" placeholder:"FILE" help:"Check a lock file of any client instead: skills, clawhub, Claude Code, Codex, ToolHive or whetstone; for a folder, all in it. Repeatable."`
	Report       bool     `env:"-" help:"With --lock: record what is found as installed on this device."`
}

// Help is shown below the help of the command.
func (c statusCommand) Help() string { return c.ExitCodes("4 not everything is up to date; ") }

// statusOutput is a skill as --json prints it. Edits is never null: scripts iterate
// over it.
type statusOutput struct {
	Name          string         `json:"name"`
	Status        drift          `json:"status"`
	Version       string         `json:"version"`
	LatestVersion string         `json:"latest_version"`
	Pinned        bool           `json:"pinned"`
	Server        string         `json:"server"`
	EntryID       string         `json:"entry_id"`
	Path          string         `json:"path"`
	Edits         []install.Edit `json:"edits"`
}

// Run compares the installed skills with the registry. It exits with ExitOutdated
// unless all are up to date or pinned. An empty lock file needs no login.
func (c *statusCommand) Run(ctx context.Context, p *term.Program) error {
	switch {
	case len(c.Lock) > 0 && len(c.Names)+len(c.Dir) > 0:
		return fault.Invalid("lock", "--lock checks all skills of a lock file: leave out names and --dir")
	case len(c.Lock) > 0:
		return lockStatus{Paths: c.Lock, Report: c.Report}.Run(ctx, p, &c.Flags)
	case c.Report:
		return fault.Invalid("report", "--report needs --lock")
	}
	dir, err := c.path()
	if err != nil {
		return err
	}
	skills, err := install.ReadLock(dir)
	if err != nil {
		return err
	}
	out := []statusOutput{}
	// A name that is not installed must be an error, also in an empty folder.
	if len(skills) > 0 || len(c.Names) > 0 {
		err = c.WithSession(p, func(s *server.Session) error {
			all, err := compareInstalled(ctx, s, dir, skills, c.Names)
			for _, skill := range all {
				out = append(out, statusOutput{
					Name: skill.name, Status: skill.drift(s.Server),
					Version: skill.record.Version, LatestVersion: skill.latestVersion(), Pinned: skill.record.Pinned,
					Server: skill.record.Server, EntryID: skill.record.EntryID, Path: filepath.Join(dir, skill.name),
					Edits: append([]install.Edit{}, skill.state.Edits...),
				})
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := p.Print(out, func(w io.Writer) {
		if len(out) == 0 {
			fmt.Fprintf(w, "Nothing is installed in %s\n", dir)
			return
		}
		fmt.Fprintln(w, "NAME\tINSTALLED\tLATEST\tSTATUS")
		for _, o := range out {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n",
				term.Plain(o.Name), term.Plain(o.Version), term.Plain(o.LatestVersion), o.statusText())
		}
	}); err != nil {
		return err
	}
	// Pinned skills are the user's choice, and those of another server are unknown
	// here: neither is drift for the exit code, which is for CI.
	for _, o := range out {
		if o.Status != upToDate && o.Status != pinned && o.Status != otherServer {
			return term.ExitCode(term.ExitOutdated)
		}
	}
	return nil
}

// statusText formats the status for people. An unknown status is shown as --json has
// it.
func (o statusOutput) statusText() string {
	switch o.Status {
	case upToDate:
		return "up to date"
	case modified:
		return "modified: " + editList(o.Edits)
	case gone:
		return "gone from the registry"
	case otherServer:
		return "from " + term.Plain(o.Server)
	default:
		return string(o.Status)
	}
}
