package telemetry

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/builtin"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Deduplication of what Codex both logs and counts.

// A codexUse is a use that Codex' log reported.
type codexUse struct {
	Group string // of uses that the log and the counter report
	At    int64  // microseconds
}

// A codexPoint is a delta of Codex' counter, which reports the uses from a time to
// another, without a session.
type codexPoint struct {
	skills.Observation
	Group string
	From  int64
}

// codexUses is the stored state of a group.
type codexUses struct {
	Logged []int64       `json:"logged"` // times, sorted
	Points []storedPoint `json:"points"`
}

type storedPoint struct {
	ID    string `json:"id"`
	Skill string `json:"skill"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	Count int64  `json:"count"`
	Fired bool   `json:"fired"`
	Mode  string `json:"mode"`
}

const (
	// codexSlack is how much later than the event's a counter's first time may be.
	codexSlack = int64(time.Second / time.Microsecond)
	// maxCodexUses and maxCodexPoints bound the stored state of a group: the oldest
	// are forgotten.
	maxCodexUses, maxCodexPoints = 10_000, 1000
)

// countCodex returns what the counter reports beyond the log. Codex reports a use
// by both if both exporters are on; the log wins, since it has a session. So a
// data point counts its uses minus those that were logged in its interval,
// whichever of the two arrives first.
func countCodex(
	ctx context.Context, tx *store.Tx, c access.Caller, uses []codexUse, points []codexPoint,
) (counted []skills.Observation, err error) {
	var ids []string
	for _, u := range uses {
		ids = append(ids, u.Group)
	}
	for _, p := range points {
		ids = append(ids, p.Group)
	}
	groups, err := lockStates[codexUses](ctx, tx, c, ids)
	if err != nil {
		return nil, err
	}
	known := map[string]int64{} // uses that were logged, by point
	for _, g := range groups {
		for _, p := range g.Points {
			known[p.ID] = g.logged(p)
		}
	}
	for _, u := range uses {
		groups[u.Group].Logged = append(groups[u.Group].Logged, u.At)
	}
	for _, g := range groups { // sorted once: a body may hold a hundred thousand, in any order
		slices.Sort(g.Logged)
		g.Logged = slices.Compact(g.Logged)
	}
	fresh := map[string]bool{}
	for _, p := range points {
		if _, ok := known[p.ID]; ok || fresh[p.ID] {
			continue
		}
		fresh[p.ID] = true
		g := groups[p.Group]
		g.Points = append(g.Points, storedPoint{
			ID: p.ID, Skill: p.SkillName, From: p.From, To: store.Micros(p.At), Count: p.Weight, Fired: p.Triggered, Mode: p.Mode,
		})
	}
	for _, g := range groups {
		for _, p := range g.Points {
			if logged := g.logged(p); fresh[p.ID] || known[p.ID] != logged {
				counted = append(counted, p.observation(logged))
			}
		}
		g.Logged = g.Logged[max(0, len(g.Logged)-maxCodexUses):]
		slices.SortFunc(g.Points, func(a, b storedPoint) int { return cmp.Compare(a.To, b.To) })
		g.Points = g.Points[max(0, len(g.Points)-maxCodexPoints):]
	}
	return counted, updateStates(ctx, tx, groups)
}

// logged counts the logged uses in the interval of a point.
func (g *codexUses) logged(p storedPoint) int64 {
	first, _ := slices.BinarySearch(g.Logged, p.From-codexSlack)
	last, _ := slices.BinarySearch(g.Logged, p.To+1)
	return int64(max(0, last-first))
}

// observation is what a point reports beyond the log. The more of it was logged,
// the newer it is, so that it replaces what was counted before.
func (p storedPoint) observation(logged int64) skills.Observation {
	at := time.UnixMicro(p.To).UTC()
	o := skills.Observation{
		ID: p.ID, SkillName: p.Skill, Unconfirmed: builtin.Skill(builtin.Codex, p.Skill),
		At: at, NormalizedAt: at.Add(time.Duration(logged) * time.Microsecond),
	}
	o = withMode(o, p.Mode)
	o.Triggered = p.Fired
	o.Weight = max(0, p.Count-logged)
	o.Void = o.Weight == 0
	return o
}
