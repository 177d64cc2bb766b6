package telemetry

import (
	"cmp"
	"path"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skills"
)

// Copilot and others that follow the conventions for generative AI tell of one
// activation by the span of the tool that loads the skill, and Copilot also by
// an event on another span. The two are paired by trace and skill. Spans of
// tools do not always name the conversation; the event's does.

// offered reads which skills an agent could choose from.
func (n *normalizer) offered(e event) error {
	var first error
	for _, name := range e.texts("github.copilot.context.skills") {
		o, hidden, err := n.observation(e, name)
		if err != nil && first == nil {
			first = err
		}
		if err != nil || hidden {
			continue
		}
		o.Offered = true
		o.ID = n.id("otlp_offered", e.session, o.SkillName)
		n.observe(o)
	}
	return first
}

// skillInvoked reads Copilot's event.
func (n *normalizer) skillInvoked(e event, span string) error {
	o, hidden, err := n.observation(e, e.text("github.copilot.skill.name", "skill.name"))
	if err != nil || hidden {
		return err
	}
	t := triggerOf(e.text("github.copilot.skill.invocation_trigger"))
	o = t.fired(o)
	o.ID = n.id("otlp_event", e.trace, span, e.time(), e.name, o.SkillName)
	n.inTrace(e, weaker(o, lacksCall), faceEvent, t)
	return nil
}

// executeTool reads the span of a tool that has to do with a skill. Reading a
// file of the skill or running its command shows that it was loaded, once.
func (n *normalizer) executeTool(e event, span string, fired bool) error {
	name := e.text("gen_ai.skill.name", "github.copilot.skill.name", "github.copilot.tool.parameters.skill_name")
	if name == "" {
		return nil
	}
	o, hidden, err := n.observation(e, name)
	if err != nil || hidden {
		return err
	}
	if usesSkill(e) {
		o.Triggered, o.ID = true, n.id("otlp_use", cmp.Or(e.trace, e.session), o.SkillName)
		n.inTrace(e, weaker(o, lacksLoading), faceUse, trigger{byTool: true})
		return nil
	}
	t := triggerOf(e.text("github.copilot.skill.invocation_trigger"))
	o, f := t.fired(o), faceCall
	if call := e.call(); call != "" {
		o = n.called(o, call)
	} else {
		f, o.ID = faceSpan, n.id("otlp_span", e.trace, span, o.SkillName)
		o = weaker(o, lacksCall)
	}
	if o.Triggered = fired; !fired {
		n.observe(o)
		return nil
	}
	n.inTrace(e, o, f, t)
	return nil
}

// usesSkill tells the use of a skill's files and commands from its loading.
func usesSkill(e event) bool {
	resource := e.text("gen_ai.skill.resource.name")
	return resource != "" && !strings.EqualFold(path.Base(resource), "SKILL.md") || e.text("process.executable.name") != ""
}

// inTrace notes an activation that others in the trace may tell of, too.
func (n *normalizer) inTrace(e event, o skills.Observation, f face, t trigger) {
	if !e.named {
		o = weaker(o, lacksSession)
	}
	if e.trace == "" || !t.byTool {
		n.observe(o)
		return
	}
	n.see(o, f, e.trace)
}
