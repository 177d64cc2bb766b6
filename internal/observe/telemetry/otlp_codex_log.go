package telemetry

import (
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
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
	if turn := e.Text("turn.id"); turn != "" { // an import reports it by the same turn
		alias := turnAlias
		if o.Mode == "explicit" {
			alias = promptAlias
		}
		o.Aliases = []string{alias(n.caller, e.session, turn, o.SkillName)}
		o.Claim = n.id("turn_event", e.session, turn, o.SkillName, kind)
	}
	n.observe(o)
	// An explicit invocation is part of the turn whose prompt is logged some
	// milliseconds later.
	n.addMark(costs.Mark{Session: o.Session, Skill: o.SkillName, At: o.At, OpensTurn: kind == "explicit"})
	n.codexUses = append(n.codexUses, codexUse{Group: n.codexGroup(kind, o.SkillName), At: store.Micros(o.At)})
	return nil
}

// codexGroup identifies a skill and the way it was invoked, within a user: what
// the event and the counter have in common.
func (n *normalizer) codexGroup(kind, skill string) string { return n.id("codex_uses", kind, skill) }
