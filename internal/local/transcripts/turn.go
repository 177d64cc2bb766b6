package transcripts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/builtin"
)

// A turn is a prompt and all that the agent did in response. Its records depend
// on its own lines only, so that reading can resume at the beginning of any
// turn.
type turn struct {
	file   *file
	number int // 0: before the first prompt of the transcript
	prompt *userMessage
	asked  *entry // the line with the prompt

	first, last entry // the first line, and the one with the latest time
	lines       int   // number of the last line
	calls       map[string]*toolCallRecord
	callOrder   []*toolCallRecord
	shell       map[string]string // command lines, by tool call
	outcomes    []outcomeRecord
	commits     []sessionCommit
	tools       map[string]int
	errors      int
	messages    map[string]*requestRecord
	order       []string // of the messages
	source      string   // the agent's own id of the prompt
	active      map[string]bool
	invocations []*invocationRecord
	byCall      map[string]*invocationRecord
	invoked     map[string]bool // skills that have an invocation in this turn
	said        *said           // nil unless it is sent
}

func newTurn(f *file, number int) *turn {
	t := &turn{
		file: f, number: number,
		calls: map[string]*toolCallRecord{}, shell: map[string]string{},
		tools: map[string]int{}, messages: map[string]*requestRecord{}, active: map[string]bool{},
		byCall: map[string]*invocationRecord{}, invoked: map[string]bool{},
	}
	if f.content {
		t.said = &said{answers: map[string]string{}, inputs: map[string]string{}, outputs: map[string]string{}}
	}
	return t
}

// begin sets the prompt of the turn.
func (t *turn) begin(e entry, m userMessage) {
	t.extend(e)
	if t.file.agent { // the prompt of a subagent is written by an agent
		return
	}
	t.prompt, t.asked = &m, &e
	if skill, ok := cleanSkill(m.command); ok {
		t.invoke(e, invocationRecord{
			SkillInvocationID: t.naturalID(e, skill), SkillName: skill,
			InvocationMode: "explicit", Triggered: true, Confidence: 1, Unconfirmed: builtin.Skill(builtin.ClaudeCode, skill),
		})
	}
}

// extend makes a line part of the turn.
func (t *turn) extend(e entry) {
	if t.first.at.IsZero() {
		t.first, t.last = e, e
	}
	if e.at.After(t.last.at) {
		t.last = e
	}
	t.lines = e.line
	if t.said != nil {
		t.said.add(e)
	}
	t.source = cmp.Or(e.PromptID, t.source)
}

// add adds a line that begins no turn.
func (t *turn) add(e entry) {
	switch e.Type {
	case "assistant":
		t.addAnswer(e)
	case "user":
		t.addResult(e)
	case "skill":
		// The skill that a prompt of Codex names, e.g. "$pdf".
		t.extend(e)
		if skill, ok := cleanSkill(e.loaded); ok {
			t.invoke(e, invocationRecord{
				SkillInvocationID: e.PromptID + ":explicit:" + skill, SkillName: skill,
				InvocationMode: "explicit", Triggered: true, Confidence: 1, Unconfirmed: builtin.Skill(builtin.Codex, skill),
			})
		}
	case "output":
		if t.said != nil {
			t.said.add(e)
		}
	}
	if e.read != "" {
		t.addRead(e)
	}
}

// addAnswer adds a line of the agent.
func (t *turn) addAnswer(e entry) {
	t.extend(e)
	t.addUsage(e)
	if e.AttributionSkill != "" {
		t.active[e.AttributionSkill] = true
	}
	for _, b := range e.Message.Content {
		if b.Type != "tool_use" || b.ID == "" || !t.addCall(e, b) {
			continue
		}
		t.tools[b.Name]++
		if b.Name == "Bash" && !b.Input.Background {
			t.shell[b.ID] = b.Input.Command
		}
		t.addToolUse(e, b)
	}
}

// addUsage adds the tokens of a line. They count once per message, however many
// lines it has; the last of them has the final numbers.
func (t *turn) addUsage(e entry) {
	id := e.messageID()
	r := t.messages[id]
	if r == nil {
		r = &requestRecord{base: newBase(requestKind, t.file.sessionOf(e), e.at, t.file.source(e)), MessageID: e.Message.ID}
		t.messages[id], t.order = r, append(t.order, id)
	}
	u := e.Message.Usage
	r.InputTokens, r.OutputTokens = max(u.Input, r.InputTokens), max(u.Output, r.OutputTokens)
	r.CacheReadTokens, r.CacheCreationTokens = max(u.CacheRead, r.CacheReadTokens), max(u.CacheCreation, r.CacheCreationTokens)
	r.CacheCreationHour = max(u.Cache.Hour, r.CacheCreationHour)
	r.RequestID, r.Model, r.SourcePromptID = cmp.Or(e.RequestID, r.RequestID), cmp.Or(e.Message.Model, r.Model), t.source
	if skill, ok := cleanSkill(e.AttributionSkill); ok {
		r.SkillName = skill
	}
	if e.at.After(r.OccurredAt) {
		r.OccurredAt = e.at
	}
	r.NormalizedAt = versionAt(r.OccurredAt, e.line)
}

// isRequest reports whether a message is the answer to a request, not one that the
// agent's program wrote itself.
func (r *requestRecord) isRequest() bool {
	tokens := r.InputTokens + r.OutputTokens + r.CacheReadTokens + r.CacheCreationTokens
	return tokens > 0 && r.Model != synthetic && (r.RequestID != "" || r.MessageID != "")
}

// addToolUse adds an invocation if a tool call loads or reads a skill.
func (t *turn) addToolUse(e entry, b block) {
	switch b.Name {
	case "Skill":
		if skill, ok := cleanSkill(b.Input.Skill); ok {
			mode, confidence := t.routing(e, skill)
			t.invoke(e, invocationRecord{
				SkillInvocationID: t.naturalID(e, b.ID), SkillName: skill,
				InvocationMode: mode, Triggered: true, Confidence: confidence, ToolName: b.Name, ToolCallID: b.ID,
				Unconfirmed: builtin.Skill(builtin.ClaudeCode, skill),
			})
		}
	case "Read":
		// An active skill that reads its own file is not considered again.
		skill, ok := skillOfFile(b.Input.FilePath)
		if ok && !t.invoked[skill] && e.AttributionSkill != skill {
			t.invoke(e, invocationRecord{
				SkillInvocationID: t.naturalID(e, b.ID), SkillName: skill, SkillPath: b.Input.FilePath,
				InvocationMode: "inferred", Triggered: false, Confidence: 0.5, ToolName: b.Name, ToolCallID: b.ID,
			})
		}
	}
}

// routing returns how a skill came to be called, and the confidence in that. A
// call without a prompt before it is certain to have fired.
func (t *turn) routing(e entry, skill string) (mode string, confidence float64) {
	switch {
	case t.file.agent || e.IsSidechain:
		return "inferred", 0.6
	case t.prompt == nil:
		return "inferred", 1
	case t.prompt.kind == kindUser && mentions(t.prompt.text, skill):
		return "implicit", 0.85
	}
	return "inferred", 0.6
}

func (t *turn) invoke(e entry, r invocationRecord) {
	r.base = newBase(invocationKind, t.file.sessionOf(e), e.at, t.file.source(e))
	r.OccurredAt, r.MatchedPromptID = e.at, t.promptID()
	if t.asked != nil {
		r.SourcePromptID = t.asked.PromptID
	}
	if t.file.agent || e.IsSidechain {
		r.AgentType = "subagent"
	}
	t.invoked[r.SkillName] = true
	t.invocations = append(t.invocations, &r)
	if r.ToolCallID != "" {
		t.byCall[r.ToolCallID] = &r
	}
}

// naturalID is the natural key of an invocation. It uses the id of the line, which
// stays the same when the agent copies the line into another transcript.
func (t *turn) naturalID(e entry, part string) string {
	return cmp.Or(e.UUID, t.file.sessionOf(e)) + ":" + part
}

// addResult adds the results of tools. A skill whose call was rejected or failed
// has not fired.
func (t *turn) addResult(e entry) {
	if !e.Message.Content.hasResult() {
		if strings.HasPrefix(e.Message.Content.text(), "[Request interrupted by user") {
			t.addOutcome(e, interrupted, cmp.Or(e.UUID, fmt.Sprintf("%s:%d", t.file.stem, e.line)), false)
		}
		return
	}
	t.extend(e)
	for _, b := range e.Message.Content {
		if b.Type != "tool_result" {
			continue
		}
		t.endCall(e, b)
		if c, ok := t.shellCall(e, b); ok {
			t.addOutcomes(e, b.ToolUseID, c)
		}
		if !b.IsError {
			continue
		}
		t.errors++
		r := t.byCall[b.ToolUseID]
		if r != nil && (b.Content.unknownSkill || r.ToolName == "Read") { // there is no such skill, or no such file
			r.Unconfirmed = true
		}
		if r != nil && r.Triggered {
			// The new version must be newer than the one before, even if the
			// lines have the same time.
			version := r.NormalizedAt.Add(time.Microsecond)
			if e.at.After(r.NormalizedAt) {
				version = e.at
			}
			r.Triggered, r.NormalizedAt = false, version
		}
	}
}

func (t *turn) promptID() string {
	if t.asked == nil {
		return ""
	}
	return fmt.Sprintf("%s:p%d", t.file.sessionOf(*t.asked), t.number-1)
}

// records returns the records of the turn.
func (t *turn) records(withText bool) []record {
	var all []record
	if t.asked != nil {
		all = append(all, t.promptRecord(withText))
	}
	for _, r := range t.invocations {
		all = append(all, *r)
	}
	for _, r := range t.callOrder {
		all = append(all, *r)
	}
	for _, r := range t.outcomes {
		all = append(all, r)
	}
	for _, id := range t.order {
		if r := t.messages[id]; r.isRequest() {
			all = append(all, *r)
		}
	}
	if len(t.messages) > 0 || t.errors > 0 {
		all = append(all, t.factRecord())
	}
	if t.said != nil {
		all = append(all, t.transcript()...)
	}
	return all
}

// maxPrompt is where the text of a prompt is truncated, in bytes: users paste
// whole files.
const maxPrompt = 64 << 10

func (t *turn) promptRecord(withText bool) promptRecord {
	e := *t.asked
	r := promptRecord{
		base:     newBase(promptKind, t.file.sessionOf(e), e.at, t.file.source(e)),
		PromptID: t.promptID(), OccurredAt: e.at, PromptKind: t.prompt.kind, IsActionable: t.prompt.kind == kindUser,
		PromptIndex: t.number - 1, SourceMessageID: e.UUID, SourcePromptID: e.PromptID,
	}
	if withText && t.prompt.kind == kindUser { // the others quote answers of agents
		r.PromptText = text.Truncate(t.prompt.text, maxPrompt)
	}
	return r
}

func (t *turn) factRecord() factRecord {
	r := factRecord{
		base:            newBase(factKind, t.file.sessionOf(t.first), versionAt(t.last.at, t.lines), t.file.source(t.first)),
		ExecutionFactID: fmt.Sprintf("%s:t%d", t.file.stem, t.number), OccurredAt: t.first.at, PromptID: t.promptID(),
		ToolCallsJSON: t.tools, AssistantTurns: len(t.messages), ErrorsEncountered: t.errors,
		DurationMS: t.last.at.Sub(t.first.at).Milliseconds(), ActiveSkills: slices.Sorted(maps.Keys(t.active)),
	}
	for _, n := range t.tools {
		r.TotalToolCalls += n
	}
	for _, m := range t.messages {
		r.InputTokens += m.InputTokens + m.CacheCreationTokens
		r.CachedInputTokens += m.CacheReadTokens
		r.OutputTokens += m.OutputTokens
	}
	return r
}

// versionAt returns a version that is newer the further a file was read, even if
// its lines have the same time.
func versionAt(at time.Time, lines int) time.Time {
	return at.Add(time.Duration(lines) * time.Microsecond)
}

// toolCallRecord is one call of a tool: when, how long and whether it worked. What
// the agent passed to the tool and what that answered are left out.
type toolCallRecord struct {
	base
	ToolCallID string    `json:"tool_call_id"`
	OccurredAt time.Time `json:"occurred_at"`
	ToolName   string    `json:"tool_name"`
	// DurationMS and Success are those of the result; nil without one. The duration
	// includes the time that a person took to permit the call.
	DurationMS *int64 `json:"duration_ms,omitempty"`
	Success    *bool  `json:"success,omitempty"`
}

// addCall adds a tool call. It reports false if it is known: the lines of one
// message may repeat it.
func (t *turn) addCall(e entry, b block) bool {
	if t.calls[b.ID] != nil {
		return false
	}
	r := &toolCallRecord{
		base:       newBase(toolCallKind, t.file.sessionOf(e), e.at, t.file.source(e)),
		ToolCallID: b.ID, OccurredAt: e.at, ToolName: b.Name,
	}
	t.calls[b.ID], t.callOrder = r, append(t.callOrder, r)
	return true
}

// endCall adds the result of a tool call.
func (t *turn) endCall(e entry, b block) {
	r := t.calls[b.ToolUseID]
	if r == nil { // it was called before the part of the transcript that is read
		return
	}
	took, worked := max(0, e.at.Sub(r.OccurredAt).Milliseconds()), !b.IsError
	r.DurationMS, r.Success = &took, &worked
	r.NormalizedAt = versionAt(e.at, e.line)
}
