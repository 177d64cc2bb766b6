package telemetry

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// skillInvocation is Codex's log event of one use of a skill. It has a session,
// which the counter skillInjected has not.
const skillInvocation = "codex.skill_invocation"

// codexInvocation reads the log event.
func (n *normalizer) codexInvocation(e event) error {
	o, hidden, err := n.observation(e, e.Text("skill.name"))
	if err != nil || hidden {
		return err
	}
	kind := e.Text("skill.invocation_type")
	o = triggerOf(kind).fired(o)
	o.ID = n.id("otlp_event", e.session, e.Text("turn.id"), e.time(), e.name, kind, o.SkillName)
	n.observe(o)
	n.mark(o.Session, o.SkillName, o.At)
	if _, known := n.invoked[o.Session]; kind == "explicit" && !known {
		n.invoked[o.Session] = o.At
	}
	n.codexUses = append(n.codexUses, codexUse{group: n.codexGroup(kind, o.SkillName), at: store.Micros(o.At)})
	return nil
}

// codexGroup identifies a skill and the way it was invoked, within a user: what
// the event and the counter have in common.
func (n *normalizer) codexGroup(kind, skill string) string { return n.id("codex_uses", kind, skill) }

// A codexUse is a use that the log reported. A codexPoint is a delta of the
// counter, which reports the uses from a time to another, without a session.
type (
	codexUse struct {
		group string
		at    int64 // microseconds
	}
	codexPoint struct {
		skills.Observation
		group string
		from  int64
	}
)

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

// dedupCodex returns what the counter reports beyond the log. Codex reports a use
// by both if both exporters are on; the log wins, since it has a session. So a
// data point counts its uses minus those that were logged in its interval,
// whichever of the two arrives first.
func dedupCodex(
	ctx context.Context, tx *store.Tx, c access.Caller, uses []codexUse, points []codexPoint,
) (counted []skills.Observation, err error) {
	if len(uses)+len(points) == 0 {
		return nil, nil
	}
	ids := each(uses, func(u codexUse) string { return u.group })
	groups, err := lockStates[codexUses](ctx, tx, c, append(ids, each(points, func(p codexPoint) string { return p.group })...))
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
		groups[u.group].Logged = append(groups[u.group].Logged, u.at)
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
		g := groups[p.group]
		g.Points = append(g.Points, storedPoint{
			ID: p.ID, Skill: p.SkillName, From: p.from, To: store.Micros(p.At), Count: p.Weight, Fired: p.Triggered, Mode: p.Mode,
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
		ID: p.ID, SkillName: p.Skill, At: at, NormalizedAt: at.Add(time.Duration(logged) * time.Microsecond),
	}
	explicit, inferred := 1.0, 0.6
	switch o.Mode = p.Mode; p.Mode {
	case "explicit":
		o.Confidence = &explicit
	case "inferred":
		o.Confidence, o.Derived = &inferred, true
	}
	o.Triggered = p.Fired
	o.Weight = max(0, p.Count-logged)
	o.Void = o.Weight == 0
	return o
}
