package transcripts

import "time"

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
