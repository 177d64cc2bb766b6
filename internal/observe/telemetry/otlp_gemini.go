package telemetry

import "github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"

// Gemini CLI has a tool that loads a skill by its name, activate_skill, and logs
// its calls.

// geminiToolCall reads a gemini_cli.tool_call event. It has no id of the call: a
// retry is known by its prompt and time. Only the model calls the tool, so the
// activation is inferred.
func (n *normalizer) geminiToolCall(e event) error {
	if e.Text("function_name") != "activate_skill" {
		return nil
	}
	o, hidden, err := n.observation(e, otlp.JSONField(e.Text("function_args"), "name"))
	if err != nil || hidden {
		return err
	}
	o = triggerOf("agent-invoked").fired(o)
	o.Triggered = e.Text("success") != "false"
	o.Unconfirmed = o.Unconfirmed || !o.Triggered // there may be no such skill
	o.ID = n.id("otlp_event", e.session, e.Text("prompt_id"), e.time(), e.name, o.SkillName)
	n.observe(o)
	if o.Triggered {
		n.mark(o.Session, o.SkillName, o.At)
	}
	return nil
}
