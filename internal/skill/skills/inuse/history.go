package inuse

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Sources are who knows about versions. Installations and Plugins may be nil.
type Sources struct {
	Versions      Versions
	Installations Installations
	Plugins       Plugins
}

// A History is what uses are attributed by: the versions of skills, which of them
// the user had installed, and which plugins the sessions had loaded.
type History struct {
	timelines map[string]Timeline
	loads     map[string][]Loaded // by session
}

// Load reads the history that the uses of a user, and gradings of the skills, need.
func (s Sources) Load(
	ctx context.Context, q store.Querier, orgID, userID string, skillIDs []string, uses []Use,
) (h History, err error) {
	if h.timelines, err = s.Versions.Timelines(ctx, q, skillIDs); err != nil || len(h.timelines) == 0 {
		return h, err
	}
	devices, sessions := map[string]bool{}, map[string]bool{}
	for _, u := range uses {
		if u.Device != nil {
			devices[*u.Device] = true
		}
		if u.Plugin != nil {
			sessions[u.Session] = true
		}
	}
	if s.Installations != nil {
		all, err := s.Installations.Installed(ctx, q, userID,
			slices.Collect(maps.Keys(devices)), slices.Collect(maps.Keys(h.timelines)))
		if err != nil {
			return h, err
		}
		for _, i := range all {
			t := h.timelines[i.SkillID]
			if t.Installed == nil {
				t.Installed = map[string][]Current{}
			}
			t.Installed[i.Device] = append(t.Installed[i.Device], Current{t.ByHash[i.Hash], i.Since})
			h.timelines[i.SkillID] = t
		}
	}
	if s.Plugins == nil || len(sessions) == 0 {
		return h, nil
	}
	all, err := s.Plugins.Loaded(ctx, q, orgID, slices.Collect(maps.Keys(sessions)))
	h.loads = map[string][]Loaded{}
	for _, l := range all {
		h.loads[l.Session] = append(h.loads[l.Session], l)
	}
	return h, err
}

// Attribute finds the version that a use counts for, and the basis. A skill without
// an entry may be part of a plugin that is one.
func (h History) Attribute(u Use) (versionID, basis *string) {
	loads := h.loads[u.Session]
	if t, ok := h.timelines[u.SkillID]; ok || u.Plugin == nil {
		return t.attribute(u, loads)
	}
	if l := u.loaded(loads); l != nil && l.Own {
		if id, ok := h.timelines[u.PluginID].ByName[l.Version]; ok {
			basis := ByPlugin
			return &id, &basis
		}
	}
	return nil, nil
}

// HasVersions reports whether a skill ever had a current version.
func (h History) HasVersions(skillID string) bool { return len(h.timelines[skillID].Currents) > 0 }

// CurrentAt returns the version of a skill that was current at a time, nil for none.
func (h History) CurrentAt(skillID string, at time.Time) *string {
	return versionAt(h.timelines[skillID].Currents, at)
}
