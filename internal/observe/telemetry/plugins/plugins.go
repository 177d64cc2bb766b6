// Package plugins keeps which plugins an agent loaded in which session, and
// derives from it which skills the session was offered. An agent reports the name
// of a plugin, not those of its skills: these become known when they are used or
// listed, e.g. "acme:deploy" of the plugin "acme". A session that loaded a plugin
// was offered every skill of it that the organisation knows, whichever of the two
// it learns first. A skill of a plugin that comes from the organisation's own marketplace
// is the entry of the registry: see mergeOwn. The package owns the tables plugin_loads,
// plugin_skills and plugin_markets.
package plugins

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
)

// Service keeps the loads of plugins.
type Service struct {
	DB     *store.DB
	Jobs   *jobs.Queue
	Curate *curate.Service
	// Observe counts the offers that follow from loads.
	Observe func(ctx context.Context, tx *store.Tx, r skills.Report) error
}

// A Load is a plugin that an agent loaded in a session. Loads of one version on
// one day are one.
type Load struct {
	Plugin, Marketplace, Version string // the last two are "" when unknown
	IDHash                       string // of Plugin and its marketplace: see idHash
	Session                      string
	At                           time.Time
}

// load is a row of plugin_loads.
type load struct {
	id, userID, sessionHash      string
	plugin, marketplace, version string
	firstAt, lastAt              time.Time
}

// Record stores loads of a user's sessions, and which skills plugins have: those
// whose names were activated or offered. A call that failed
// proves nothing. If anything is new, pending is true, and the caller must
// enqueue the derivation of offers as the last thing in its transaction: see
// Derive.
func (s *Service) Record(
	ctx context.Context, tx *store.Tx, c access.Caller, loads []Load, observations []skills.Observation,
) (pending bool, err error) {
	defer fault.Wrap(&err, "plugins")
	if loads, err = recognise(ctx, tx, c, loads); err != nil {
		return false, err
	}
	rows := merge(c, loads)
	loaded, err := upsertLoads(ctx, tx, c, rows)
	if err != nil {
		return false, err
	}
	if err := insertMarkets(ctx, tx, c.OrgID, rows); err != nil {
		return false, err
	}
	names := map[string]bool{}
	for _, o := range observations {
		if pluginOf(o.SkillName) != "" && (o.Triggered || o.Offered) {
			names[o.SkillName] = true
		}
	}
	learned, err := insertSkills(ctx, tx, c.OrgID, slices.Sorted(maps.Keys(names)))
	return loaded || learned, err
}

// merge returns the rows of loads, sorted by their ids, so that concurrent
// reports lock them in one order.
func merge(c access.Caller, loads []Load) []load {
	byID := map[string]load{}
	for _, l := range loads {
		at := l.At.UTC().Truncate(time.Microsecond)
		row := load{
			userID: c.UserID, sessionHash: skills.SessionHash(c.UserID, l.Session),
			plugin: l.Plugin, marketplace: l.Marketplace, version: l.Version, firstAt: at, lastAt: at,
		}
		row.id = c.UserID + "/" + skills.ID(c.OrgID, c.UserID, "plugin_load", strings.Join([]string{
			row.sessionHash, l.Plugin, l.Marketplace, l.Version, at.Format(time.DateOnly),
		}, "\n"))
		if known, ok := byID[row.id]; ok {
			row.firstAt = slices.MinFunc([]time.Time{known.firstAt, at}, time.Time.Compare)
			row.lastAt = slices.MaxFunc([]time.Time{known.lastAt, at}, time.Time.Compare)
		}
		byID[row.id] = row
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b load) int { return cmp.Compare(a.id, b.id) })
}

// pluginOf returns the plugin of a skill, "" if its name has none.
func pluginOf(skill string) string {
	plugin, rest, ok := strings.Cut(skill, ":")
	if !ok || rest == "" {
		return ""
	}
	return plugin
}
