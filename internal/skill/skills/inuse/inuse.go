// Package inuse tells which version of a skill was in use: the one whose content
// hash a record names, else the one of the plugin that the session had loaded,
// else the one that the user had installed, else the one that was current.
package inuse

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Versions is implemented by the registry, which is above this package: observations are
// attributed to the version that was in use.
type Versions interface {
	// Timelines returns the version history of each skill that has one.
	Timelines(ctx context.Context, q store.Querier, skillIDs []string) (map[string]Timeline, error)
}

// Installations knows what users have installed.
type Installations interface {
	// Installed returns what a user had installed of the skills, oldest first: on
	// all devices taken together, and on each of some devices.
	Installed(ctx context.Context, q store.Querier, userID string, devices, skillIDs []string) ([]Installed, error)
}

// Plugins knows what agents report about the plugins that they loaded.
type Plugins interface {
	// Loaded returns the plugins that sessions, by their hashes, loaded, in the order
	// of time. Those that are not from the organisation's registry are left out.
	Loaded(ctx context.Context, q store.Querier, orgID string, sessions []string) ([]Loaded, error)
}

// An Installed is the content of a skill that was installed from a time on.
type Installed struct {
	SkillID string
	Device  string // see skills.DeviceHash; "": all of the user's
	Hash    string // "" when unknown: nothing, or different versions
	Since   time.Time
}

// A Loaded is a plugin that a session loaded at a time.
type Loaded struct {
	Session string // its hash
	Plugin  string
	Version string
	// Own means that it is from the organisation's own marketplace, whose plugins
	// are the entries of its registry. Else nothing says where it is from.
	Own bool
	At  time.Time
}

// A Timeline is the registry versions of a skill over time.
type Timeline struct {
	ByHash   map[string]string // version id by content hash
	ByName   map[string]string // version id by version, e.g. "1.2.0"
	Currents []Current         // oldest first
	// Installed are the versions that the user had installed, by device as in
	// Installed, oldest first. Those that are no version of the registry have an
	// empty VersionID.
	Installed map[string][]Current
}

// A Current is a version that became current.
type Current struct {
	VersionID string
	Since     time.Time
}

// The bases of an attribution to a version, best first; nil means that it was the
// current one.
const (
	ByHash         = "hash"         // the record names the content hash
	ByPlugin       = "plugin"       // the agent named the version that it loaded
	ByInstallation = "installation" // the user had it installed
)

// A Use is what an observation of a skill says about its version.
type Use struct {
	SkillID string
	Session string  // its hash
	Hash    *string // of the content
	Version *string // e.g. "1.2.0"
	Plugin  *string // that brought the skill
	// PluginID is the skill that has the plugin's name, "" for none.
	PluginID string
	Device   *string
	At       time.Time
}

// attribute finds the version of a use, and the basis.
func (t Timeline) attribute(u Use, loads []Loaded) (versionID, basis *string) {
	named := func(byName map[string]string, name *string, basis string) (*string, *string) {
		if name != nil {
			if id, ok := byName[*name]; ok {
				return &id, &basis
			}
		}
		return nil, nil
	}
	if id, basis := named(t.ByHash, u.Hash, ByHash); id != nil {
		return id, basis
	}
	if id, basis := named(t.ByName, u.Version, ByPlugin); id != nil {
		return id, basis
	}
	if l := u.loaded(loads); l != nil {
		if id, basis := named(t.ByName, &l.Version, ByPlugin); id != nil {
			return id, basis
		}
	}
	if id := t.installedAt(u); id != nil && *id != "" {
		basis := ByInstallation
		return id, &basis
	}
	return versionAt(t.Currents, u.At), nil
}

// installedAt returns the version that was installed on the use's device, or on all
// devices if nothing is on record for that one.
func (t Timeline) installedAt(u Use) *string {
	if u.Device != nil {
		if id := versionAt(t.Installed[*u.Device], u.At); id != nil {
			return id
		}
	}
	return versionAt(t.Installed[""], u.At)
}

// loaded returns the use's plugin as its session had loaded it by then, nil if that
// is not known.
func (u Use) loaded(loads []Loaded) (found *Loaded) {
	for _, l := range loads {
		// The first one counts even if clocks say that it came later.
		if u.Plugin != nil && *u.Plugin == l.Plugin && (found == nil || !l.At.After(u.At)) {
			found = &l
		}
	}
	return found
}

// versionAt returns the version that was current at a time, nil before the first.
func versionAt(currents []Current, at time.Time) *string {
	i, _ := slices.BinarySearchFunc(currents, at, func(c Current, at time.Time) int {
		if c.Since.After(at) {
			return 1
		}
		return -1
	})
	if i == 0 {
		return nil
	}
	return &currents[i-1].VersionID
}
