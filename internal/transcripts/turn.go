package transcripts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A turn is a prompt and all that the agent did because of it. Whatever is
// said of a turn depends on its own lines only, so that reading can go on
// from the beginning of any turn.
type turn struct {
	file   *file
	number int // 0: before the first prompt of the transcript
	said   *said
	asked  *entry // the line with the prompt

	first, last entry // the first line, and that with the latest time
	lines       int   // number of the last line
	calls       map[string]bool
	tools       map[string]int
	errors      int
	messages    map[string]usage
	active      map[string]bool
	invocations []*invocationRecord
	byCall      map[string]*invocationRecord
	noticed     map[string]bool // skills that have an invocation in this turn
}

func newTurn(f *file, number int) *turn {
	return &turn{
		file: f, number: number,
		calls: map[string]bool{}, tools: map[string]int{}, messages: map[string]usage{}, active: map[string]bool{},
		byCall: map[string]*invocationRecord{}, noticed: map[string]bool{},
	}
}

// begin makes the turn one that answers a prompt.
func (t *turn) begin(e entry, s said) {
	t.see(e)
	if t.file.agent { // its words are those of the agent that gave it the task
		return
	}
	t.said, t.asked = &s, &e
	if skill, ok := cleanSkill(s.command); ok {
		t.invoke(e, invocationRecord{
			SkillInvocationID: t.naturalID(e, skill), SkillName: skill, InvocationMode: "explicit", Triggered: true, Confidence: 1,
		})
	}
}

// see keeps the times of the turn.
func (t *turn) see(e entry) {
	if t.first.at.IsZero() {
		t.first, t.last = e, e
	}
	if e.at.After(t.last.at) {
		t.last = e
	}
	t.lines = e.line
}

// answer takes in a line of the agent.
func (t *turn) answer(e entry) {
	t.see(e)
	t.charge(e)
	if e.AttributionSkill != "" {
		t.active[e.AttributionSkill] = true
	}
	for _, b := range e.Message.Content {
		if b.Type != "tool_use" || b.ID == "" || t.calls[b.ID] {
			continue
		}
		t.calls[b.ID] = true
		t.tools[b.Name]++
		t.use(e, b)
	}
}

// charge counts the message once, however many lines it has; the last of them
// has its final cost.
func (t *turn) charge(e entry) {
	id := e.Message.ID
	if id == "" {
		id = fmt.Sprintf("line %d", e.line)
	}
	u, was := e.Message.Usage, t.messages[id]
	t.messages[id] = usage{
		Input: max(u.Input, was.Input), Output: max(u.Output, was.Output),
		CacheCreation: max(u.CacheCreation, was.CacheCreation), CacheRead: max(u.CacheRead, was.CacheRead),
	}
}

// use notes what a call of a tool tells about skills.
func (t *turn) use(e entry, b block) {
	switch b.Name {
	case "Skill":
		if skill, ok := cleanSkill(b.Input.Skill); ok {
			mode, confidence := t.routing(e, skill)
			t.invoke(e, invocationRecord{
				SkillInvocationID: t.naturalID(e, b.ID), SkillName: skill, InvocationMode: mode, Triggered: true, Confidence: confidence,
				ToolName: b.Name, ToolCallID: b.ID,
			})
		}
	case "Read":
		// To read the file of a skill that is at work is part of its work.
		skill, ok := skillOfFile(b.Input.FilePath)
		if ok && !t.noticed[skill] && e.AttributionSkill != skill {
			t.invoke(e, invocationRecord{
				SkillInvocationID: t.naturalID(e, b.ID), SkillName: skill, SkillPath: b.Input.FilePath,
				InvocationMode: "inferred", Triggered: false, Confidence: 0.5, ToolName: b.Name, ToolCallID: b.ID,
			})
		}
	}
}

// routing says how a skill came to be called, and how sure that is. A call
// without a prompt before it is certain, and nothing else is known of it.
func (t *turn) routing(e entry, skill string) (mode string, confidence float64) {
	switch {
	case t.file.agent || e.IsSidechain:
		return "inferred", 0.6
	case t.said == nil:
		return "inferred", 1
	case t.said.kind == kindUser && names(t.said.text, skill):
		return "implicit", 0.85
	}
	return "inferred", 0.6
}

func (t *turn) invoke(e entry, r invocationRecord) {
	r.base = newBase(invocationKind, t.file.sessionOf(e), e.at, t.file.source(e))
	r.OccurredAt, r.MatchedPromptID = e.at, t.promptID()
	if t.file.agent || e.IsSidechain {
		r.AgentType = "subagent"
	}
	t.noticed[r.SkillName] = true
	t.invocations = append(t.invocations, &r)
	if r.ToolCallID != "" {
		t.byCall[r.ToolCallID] = &r
	}
}

// naturalID names what a part of a line tells. The id of the line stays when
// the agent copies it into another transcript.
func (t *turn) naturalID(e entry, part string) string {
	return cmp.Or(e.UUID, t.file.sessionOf(e)) + ":" + part
}

// result takes in the results of tools. A skill whose call was refused or
// went wrong has not fired.
func (t *turn) result(e entry) {
	if !e.Message.Content.hasResult() {
		return
	}
	t.see(e)
	for _, b := range e.Message.Content {
		if b.Type != "tool_result" || !b.IsError {
			continue
		}
		t.errors++
		if r := t.byCall[b.ToolUseID]; r != nil && r.Triggered {
			r.Triggered, r.NormalizedAt = false, latest(e.at, r.NormalizedAt)
		}
	}
}

// latest returns a time that is not before the other, and differs from it.
func latest(at, other time.Time) time.Time {
	if at.After(other) {
		return at
	}
	return other.Add(time.Microsecond)
}

func (t *turn) promptID() string {
	if t.asked == nil {
		return ""
	}
	return fmt.Sprintf("%s:p%d", t.file.sessionOf(*t.asked), t.number-1)
}

// records returns what the turn has to tell.
func (t *turn) records(withText bool) []record {
	var all []record
	if t.asked != nil {
		all = append(all, t.prompt(withText))
	}
	for _, r := range t.invocations {
		all = append(all, *r)
	}
	if len(t.messages) > 0 || t.errors > 0 {
		all = append(all, t.fact())
	}
	return all
}

// maxPrompt cuts what people paste.
const maxPrompt = 64 << 10

func (t *turn) prompt(withText bool) promptRecord {
	e := *t.asked
	r := promptRecord{
		base:     newBase(promptKind, t.file.sessionOf(e), e.at, t.file.source(e)),
		PromptID: t.promptID(), OccurredAt: e.at, PromptKind: t.said.kind, IsActionable: t.said.kind == kindUser,
		PromptIndex: t.number - 1, SourceMessageID: e.UUID,
	}
	if withText && t.said.kind == kindUser { // others hold answers of agents
		r.PromptText = cut(t.said.text, maxPrompt)
	}
	return r
}

func (t *turn) fact() factRecord {
	r := factRecord{
		base:            newBase(factKind, t.file.sessionOf(t.first), readAt(t.last.at, t.lines), t.file.source(t.first)),
		ExecutionFactID: fmt.Sprintf("%s:t%d", t.file.stem, t.number), OccurredAt: t.first.at, PromptID: t.promptID(),
		ToolCallsJSON: t.tools, AssistantTurns: len(t.messages), ErrorsEncountered: t.errors,
		DurationMS: t.last.at.Sub(t.first.at).Milliseconds(), ActiveSkills: slices.Sorted(maps.Keys(t.active)),
	}
	for _, n := range t.tools {
		r.TotalToolCalls += n
	}
	for _, u := range t.messages {
		r.InputTokens += u.Input + u.CacheCreation
		r.CachedInputTokens += u.CacheRead
		r.OutputTokens += u.Output
	}
	return r
}

// readAt makes a reading that went further newer than one that did not, also
// where the lines have the same time.
func readAt(at time.Time, lines int) time.Time {
	return at.Add(time.Duration(lines) * time.Microsecond)
}
