package plugins

import (
	"cmp"
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

// History reads which plugins sessions loaded. Like registry.History it needs no Service.
type History struct{}

// Loaded implements inuse.Plugins. A version is that of the registry only if the
// plugin comes from there: one that a session loaded from another marketplace is
// left out, with all its namesakes in that session.
func (History) Loaded(ctx context.Context, q store.Querier, orgID string, sessions []string) ([]inuse.Loaded, error) {
	market, err := ownMarketplace(ctx, q, orgID)
	if err != nil {
		return nil, err
	}
	loads, err := loadsOfSessions(ctx, q, orgID, sessions)
	if err != nil {
		return nil, err
	}
	type name struct{ session, plugin string }
	foreign := map[name]bool{}
	for _, l := range loads {
		if l.marketplace != "" && l.marketplace != market {
			foreign[name{l.sessionHash, l.plugin}] = true
		}
	}
	var all []inuse.Loaded
	for _, l := range loads {
		if foreign[name{l.sessionHash, l.plugin}] {
			continue
		}
		first := inuse.Loaded{
			Session: l.sessionHash, Plugin: l.plugin, Version: l.version,
			Own: l.marketplace == market, At: l.firstAt,
		}
		last := first
		last.At = l.lastAt
		all = append(all, first, last)
	}
	slices.SortFunc(all, func(a, b inuse.Loaded) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Version, b.Version)) })
	return all, nil
}

// Sessions returns the hashes of the sessions of loads.
func Sessions(userID string, loads []Load) []string {
	hashes := make([]string, len(loads))
	for i, l := range loads {
		hashes[i] = skills.SessionHash(userID, l.Session)
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}
