package telemetry

import (
	"encoding/json"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skills"
)

// Claude Code tells of one activation up to four times: skill_activated, which
// knows how it came about but not the tool call; tool_decision and
// tool_result, which know the call but not how it came about; and the span
// claude_code.tool. Those that know the call find each other by it;
// skill_activated is paired with them by session, prompt and skill.

// skillActivated reads the event of that name.
func (n *normalizer) skillActivated(e event) error {
	o, hidden, err := n.observation(e, e.text("skill.name"))
	if err != nil || hidden {
		return err
	}
	t := triggerOf(e.text("invocation_trigger"))
	n.inPrompt(e, t.fired(o), faceEvent, t.byTool)
	return nil
}

// toolResult reads the event of that name. A call of a skill that failed is a
// check that did not fire.
func (n *normalizer) toolResult(e event) error {
	if e.text("tool_name") != "Skill" {
		return nil
	}
	o, hidden, err := n.observation(e, e.skillOfTool())
	if err != nil || hidden {
		return err
	}
	o.Triggered = e.text("success") != "false"
	n.inPrompt(e, o, faceResult, o.Triggered)
	return nil
}

// toolDecision reads the event of that name. A refused call is a check that
// did not fire; of an allowed one its result will tell.
func (n *normalizer) toolDecision(e event) error {
	if e.text("tool_name") != "Skill" || e.text("decision") != "reject" {
		return nil
	}
	o, hidden, err := n.observation(e, e.skillOfTool())
	if err != nil || hidden {
		return err
	}
	n.inPrompt(e, o, faceResult, false)
	return nil
}

// inPrompt notes what a log event says, by its call if it knows that. Others
// may tell of the same activation, if it is shared.
func (n *normalizer) inPrompt(e event, o skills.Observation, f face, shared bool) {
	prompt := e.text("prompt.id")
	if call := e.call(); call != "" {
		f, o = faceCall, n.called(o, call)
	} else {
		o = weaker(o, lacksCall)
		o.ID = n.id("otlp_event", e.session, prompt, e.number(), e.name, o.SkillName)
	}
	if !shared || prompt == "" {
		n.observe(o)
		return
	}
	n.see(o, f, e.session, prompt)
}

// number tells a log event from the others of its prompt: its place in the
// session, else its time. A session that is resumed begins to number anew.
func (e event) number() string {
	if sequence := e.text("event.sequence"); sequence != "" {
		return sequence
	}
	return e.time()
}

// claudeTool reads the span of a tool. It yields to the events, which know
// better what became of the call. A span without a call id cannot be told from
// the events of the same use, and is not counted.
func (n *normalizer) claudeTool(e event, fired bool) error {
	call := e.call()
	name := e.text("skill_name")
	if call == "" || name == "" && e.text("tool_name") != "Skill" {
		return nil
	}
	o, hidden, err := n.observation(e, name)
	if err != nil || hidden {
		return err
	}
	o.Triggered = fired
	n.observe(weaker(n.called(o, call), lacksOutcome))
	return nil
}

// skillOfTool is the skill that a call of the tool Skill asks for.
func (e event) skillOfTool() string {
	var parameters struct {
		SkillName string `json:"skill_name"`
	}
	if json.Unmarshal([]byte(e.text("tool_parameters")), &parameters) != nil || parameters.SkillName == "" {
		parameters.SkillName = e.text("skill_name")
	}
	return strings.TrimPrefix(parameters.SkillName, "/")
}
