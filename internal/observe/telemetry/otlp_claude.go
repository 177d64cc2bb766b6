package telemetry

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/plugins"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Claude Code reports one activation up to four times: by the event
// skill_activated, which has its trigger but not the tool call; by the events
// tool_decision and tool_result, which have the call but not the trigger; and by
// the span claude_code.tool. Reports with the call are deduplicated by it;
// skill_activated is matched with them by session, prompt and skill.

// maskedSkill is the name of all skills of people and projects by default: that of
// the skill is found by the requests of the prompt. Those of plugins are hidden there,
// too.
const maskedSkill = "custom_skill"

// skillActivated reads a skill_activated event.
func (n *normalizer) skillActivated(e event) error {
	name := strings.TrimSpace(e.Text("skill.name"))
	o, hidden, err := n.observation(e, name)
	if err != nil {
		return err
	}
	t := triggerOf(e.Text("invocation_trigger"))
	prompt := e.Text("prompt.id")
	if hidden && name != "" && (name != maskedSkill || prompt == "") {
		n.redacted++
	}
	if name != "" && prompt != "" && e.session != "" {
		known := cmp.Or(o.SkillName, name)
		if known == maskedSkill {
			known = ""
		}
		if o.At, err = n.timeOf(e.nanos); err != nil {
			return err
		}
		n.touchSession(e, false)
		n.clue(e, activation, prompt, known, t.mode, o.At)
	}
	if hidden {
		return nil
	}
	if e.plugin() != "" { // what it brings is on offer
		offer := o
		offer.Offered = true
		n.observe(offer)
	}
	n.addInPrompt(e, t.fired(o), byEvent, t.byTool)
	return nil
}

// clue adds what an event says about the skills of its prompt.
func (n *normalizer) clue(e event, kind clueKind, prompt, skill, mode string, at time.Time) {
	order, ok := e.Float("event.sequence")
	if !ok {
		order = float64(e.nanos / 1000)
	}
	n.clues = append(n.clues, maskedClue{
		Prompt: promptGroup(n.caller, e.session, prompt), Kind: kind, Skill: skill, Order: int64(order),
		ID:          n.id("otlp_masked", e.session, prompt, e.number(), e.name),
		Observation: skills.Observation{Session: e.session, At: at, Mode: mode},
	})
}

// promptGroup identifies a prompt in a session, among the groups of dedup.
func promptGroup(c access.Caller, session, prompt string) string {
	return skills.ID(c.OrgID, c.UserID, "masked_prompt", session+"\n"+prompt)
}

// activationGroup identifies a skill in a prompt of a session, or in a trace.
func activationGroup(c access.Caller, of ...string) string {
	return skills.ID(c.OrgID, c.UserID, "otlp_activation", strings.Join(of, "\n"))
}

// pluginLoaded reads a plugin_loaded event, which a session reports for each of
// its plugins when it starts. Without OTEL_LOG_TOOL_DETAILS the name is hidden,
// but so are those of the skills that are activated: such a session would seem to
// leave the plugin's skills unused, so it is not counted.
func (n *normalizer) pluginLoaded(e event) error {
	plugin := e.plugin()
	if plugin == "" || e.session == "" {
		return nil
	}
	at, err := n.timeOf(e.nanos)
	if err != nil {
		return err
	}
	n.loads = append(n.loads, plugins.Load{
		Plugin: plugin, Marketplace: e.marketplace(), Version: e.Text("plugin.version"), IDHash: e.Text("plugin_id_hash"),
		Session: e.session, At: at,
	})
	n.touchSession(e, false)
	return nil
}

// plugin returns the name of the plugin, "" if there is none, if it is hidden or
// if it is a part of the agent.
func (e event) plugin() string {
	name := strings.TrimSpace(e.Text("plugin.name"))
	if skills.Placeholder(name) || e.Text("marketplace.name") == "builtin" {
		return ""
	}
	return name
}

// marketplace returns the name of the marketplace that the plugin is from, "" if
// it is unknown or hidden.
func (e event) marketplace() string {
	name := strings.TrimSpace(e.Text("marketplace.name"))
	if skills.Placeholder(name) {
		return ""
	}
	return name
}

// toolResult reads a tool_result event. A failed call of a skill is a check that
// did not fire.
func (n *normalizer) toolResult(e event) error {
	if e.Text("tool_name") != "Skill" {
		return nil
	}
	o, hidden, err := n.observation(e, e.skillOfTool())
	if err != nil || hidden {
		return err
	}
	o.Triggered = e.Text("success") != "false"
	n.addInPrompt(e, o, byResult, o.Triggered)
	return nil
}

// toolDecision reads a tool_decision event. A rejected call is a check that did
// not fire; an accepted one is reported by its tool_result.
func (n *normalizer) toolDecision(e event) error {
	if e.Text("tool_name") != "Skill" || e.Text("decision") != "reject" {
		return nil
	}
	o, hidden, err := n.observation(e, e.skillOfTool())
	if err != nil || hidden {
		return err
	}
	n.addInPrompt(e, o, byResult, false)
	return nil
}

// addInPrompt adds what a log event reports, under its tool call if it has one.
// If shared, other signals report the same activation.
func (n *normalizer) addInPrompt(e event, o skills.Observation, by reporter, shared bool) {
	prompt := e.Text("prompt.id")
	if call := e.call(); call != "" {
		by, o = byCall, n.withCall(o, call)
	} else {
		o = demote(o, lacksCall)
		o.ID = n.id("otlp_event", e.session, prompt, e.number(), e.name, o.SkillName)
		if o.Mode == "explicit" && prompt != "" { // an import reports it by the same prompt
			o.Aliases = []string{promptAlias(n.caller, e.session, prompt, o.SkillName)}
		}
	}
	if !shared || prompt == "" {
		n.observe(o)
		return
	}
	n.addReport(o, by, e.session, prompt)
}

// number identifies a log event within its prompt: its sequence number in the
// session, else its time. A resumed session starts again at 0.
func (e event) number() string {
	if sequence := e.Text("event.sequence"); sequence != "" {
		return sequence
	}
	return e.time()
}

// claudeTool reads the span of a tool. The events of the same call take
// precedence, since they have its outcome. A span without a call id cannot be
// deduplicated against the events, so it is not counted.
func (n *normalizer) claudeTool(e event, fired bool) error {
	call := e.call()
	name := e.Text("skill_name")
	if call == "" || name == "" && e.Text("tool_name") != "Skill" {
		return nil
	}
	o, hidden, err := n.observation(e, name)
	if err != nil || hidden {
		return err
	}
	o.Triggered = fired
	n.observe(demote(n.withCall(o, call), lacksOutcome))
	return nil
}

// skillOfTool returns the skill that a call of the tool Skill names.
func (e event) skillOfTool() string {
	var parameters struct {
		SkillName string `json:"skill_name"`
	}
	if json.Unmarshal([]byte(e.Text("tool_parameters")), &parameters) != nil || parameters.SkillName == "" {
		parameters.SkillName = e.Text("skill_name")
	}
	return strings.TrimPrefix(parameters.SkillName, "/")
}
