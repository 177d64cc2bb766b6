package telemetry

import (
	"cmp"
	"path"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Copilot and other agents that follow OpenTelemetry's conventions for generative
// AI report an activation by the span of the tool that loads the skill, Copilot
// also by an event on another span. The two are matched by trace and skill. Not
// every span of a tool names the conversation; the span of the event does.

// offered reads the list of skills that the agent showed to the model, but those that
// came with it.
func (n *normalizer) offered(e event) error {
	var first error
	for _, name := range e.Texts("github.copilot.context.skills") {
		o, hidden, err := n.observation(e, name)
		if err != nil && first == nil {
			first = err
		}
		if err != nil || hidden || o.Unconfirmed {
			continue
		}
		o.Offered = true
		n.observe(o)
	}
	return first
}

// skillInvoked reads a github.copilot.skill.invoked event.
func (n *normalizer) skillInvoked(e event, span string) error {
	o, hidden, err := n.observation(e, e.Text("gen_ai.skill.name", "github.copilot.skill.name", "skill.name"))
	if err != nil || hidden {
		return err
	}
	t := triggerOf(e.Text("github.copilot.skill.invocation_trigger"))
	o = t.fired(o)
	o.ID = n.id("otlp_event", e.trace, span, e.time(), e.name, o.SkillName)
	n.markSpan(e, o)
	n.addInTrace(e, demote(o, lacksCall), byEvent, t)
	return nil
}

// executeTool reads the span of a tool that names a skill. Reading a file of the
// skill or running its command is evidence that it was loaded, once in a trace.
func (n *normalizer) executeTool(e event, span string, fired bool) error {
	name := e.Text("gen_ai.skill.name", "github.copilot.skill.name", "github.copilot.tool.parameters.skill_name")
	if name == "" {
		return nil
	}
	o, hidden, err := n.observation(e, name)
	if err != nil || hidden {
		return err
	}
	// A tool that used a file or command of a skill, rather than loading it, says that it was loaded before.
	resource := e.Text("gen_ai.skill.resource.name")
	if resource != "" && !strings.EqualFold(path.Base(resource), "SKILL.md") || e.Text("process.executable.name") != "" {
		o.Triggered, o.ID = true, n.id("otlp_use", cmp.Or(e.trace, e.session), o.SkillName)
		n.addInTrace(e, demote(o, lacksLoading), byUseID, trigger{byTool: true})
		return nil
	}
	t := triggerOf(e.Text("github.copilot.skill.invocation_trigger"))
	o, by := t.fired(o), byCall
	if call := e.call(); call != "" {
		o = n.withCall(o, call)
	} else {
		by, o.ID = bySpan, n.id("otlp_span", e.trace, span, o.SkillName)
		o = demote(o, lacksCall)
	}
	if o.Triggered = fired; !fired {
		o.Unconfirmed = true // there may be no such skill
		n.observe(o)
		return nil
	}
	n.markSpan(e, o)
	n.addInTrace(e, o, by, t)
	return nil
}

// addInTrace adds an activation that other signals of the trace may report, too.
func (n *normalizer) addInTrace(e event, o skills.Observation, by reporter, t trigger) {
	if !e.named {
		o = demote(o, lacksSession)
	}
	if preloaded := t.mode == "" && !t.byTool; e.trace == "" || preloaded {
		n.observe(o)
		return
	}
	n.addReport(o, by, e.trace)
}
