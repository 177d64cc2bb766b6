package telemetry

import "github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"

// OpenCode has a tool that loads a skill by its name, skill. Its calls are spans of
// the Vercel AI SDK, ai.toolCall.

// aiToolCall reads the span of a tool call. Only the model calls the tool, so the
// activation is inferred.
func (n *normalizer) aiToolCall(e event, span string, fired bool) error {
	if e.Text("ai.toolCall.name") != "skill" {
		return nil
	}
	o, hidden, err := n.observation(e, otlp.JSONField(e.Text("ai.toolCall.args"), "name"))
	if err != nil || hidden {
		return err
	}
	o = triggerOf("agent-invoked").fired(o)
	o.Triggered, o.Unconfirmed = fired, !fired // there may be no such skill
	if call := e.call(); call != "" {
		o = n.withCall(o, call)
	} else {
		o.ID = n.id("otlp_span", e.trace, span, o.SkillName)
	}
	n.observe(o)
	if o.Triggered {
		n.markSpan(e, o)
	}
	return nil
}
