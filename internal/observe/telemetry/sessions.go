package telemetry

import (
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
)

// signal returns an event for timeline. It reports false for an event outside a
// session. A trace isn't a session, since its id means nothing to a person.
func (n *normalizer) signal(e event, number string) (sessionSignal, bool) {
	at, err := n.timeOf(e.nanos)
	named := e.named || n.sessions[e.trace] != ""
	return sessionSignal{
		Attributes: e.Attributes, Name: e.name, Session: n.sessionOf(e), At: at, Number: e.name + "\n" + number,
	}, named && err == nil
}

// touchSession extends the time range of the session of an event. The time may lie
// outside of the session, as that of a grading does.
func (n *normalizer) touchSession(e event, outside bool) {
	if s, ok := n.signal(e, ""); ok {
		n.sightings = append(n.sightings, s.Sighting(outside))
	}
}

// sessionLog reads what a log record says about the course of its session.
func (n *normalizer) sessionLog(e event) {
	s, ok := n.signal(e, e.Text("prompt.id", "prompt_id")+"\n"+e.number())
	if !ok {
		return
	}
	if reported, ok := logEvent(s); ok {
		n.sightings = append(n.sightings, s.Sighting(false))
		n.events = append(n.events, reported)
	}
}

// sessionSpan reads the tool call of a span.
func (n *normalizer) sessionSpan(e event, span string, end uint64, failed bool) {
	s, ok := n.signal(e, span)
	ended, err := n.timeOf(end)
	if !ok || err != nil {
		return
	}
	if reported, ok := spanEvent(s, ended, failed); ok {
		n.sightings = append(n.sightings, s.Sighting(false))
		n.events = append(n.events, reported)
	}
}

// touchSession extends the time range of the session of a record.
func (r *reader) touchSession(b base, at time.Time, outside bool) {
	r.batch.sightings = append(r.batch.sightings, sessions.Sighting{
		Session: optional(b.SessionID), Agent: agentName(textIn(b.Platform)), At: at, Outside: outside,
	})
}

// sightSession notes the times of a session's own record, as far as it has any.
func (r *reader) sightSession(c sessionRecord) {
	started, err := r.timeIn("started_at", c.StartedAt)
	ended, endErr := r.timeIn("ended_at", c.EndedAt)
	switch {
	case err == nil && endErr == nil && ended.Before(started), err != nil && endErr != nil:
		return
	case err != nil:
		started = ended
	}
	r.touchSession(c.base, started, false)
	last := started
	if endErr == nil {
		r.batch.sightings[len(r.batch.sightings)-1].EndedAt, last = &ended, ended
	}
	switch textIn(c.Status) {
	case "interrupted", "cancelled":
		r.setback(c.base, sessions.Interrupted, "", last)
	}
}

// setback adds the event of something that people did because a session went wrong.
func (r *reader) setback(b base, name, id string, at time.Time) {
	failed := false
	r.batch.events = append(r.batch.events, sessions.Event{
		Session: optional(b.SessionID), Kind: sessions.Error, ID: name + "\n" + id, At: at, Name: name, OK: &failed,
	})
}

// signalRecord is what a person said about a session while it ran.
type signalRecord struct {
	base
	ID        json.RawMessage `json:"signal_id"`
	Type      json.RawMessage `json:"signal_type"`
	Timestamp json.RawMessage `json:"timestamp"`
}

// improvementSignal stores a signal unchanged, and notes a correction with its
// session.
func (r *reader) improvementSignal(c signalRecord, item json.RawMessage) error {
	if err := opaque("improvement_signal", "signal_id")(r, c.base, item); err != nil {
		return err
	}
	if at, err := r.timeIn("timestamp", c.Timestamp); err == nil && textIn(c.Type) == "correction" &&
		optional(c.SessionID) != "" {
		r.touchSession(c.base, at, false)
		r.setback(c.base, sessions.UserCorrection, textIn(c.ID), at)
	}
	return nil
}

func (r *reader) timeIn(field string, raw json.RawMessage) (time.Time, error) {
	text := textIn(raw)
	return r.parseTime(field, &text)
}

// promptEvent adds the event of a prompt, unless no person or agent asked
// something with it.
func (r *reader) promptEvent(c promptRecord, id string, at time.Time) {
	r.touchSession(c.base, at, false)
	switch optional(c.Kind) {
	case "system_instruction", "tool_output", "meta", "continuation":
		return
	}
	if source := optional(c.SourcePromptID); source != "" {
		id = source
	}
	r.batch.events = append(r.batch.events, sessions.Event{
		Session: optional(c.SessionID), Kind: sessions.Prompt, ID: id, At: at,
	})
}

// factCounts adds what an execution fact says about the calls of tools, if it has a
// time. Our own import sends the calls beside it: its facts only tell that there was
// none.
func (r *reader) factCounts(c factRecord, session, id string) error {
	calls, errors := c.ToolCalls.Count(), c.Errors.Count()
	if c.OccurredAt == nil || calls == nil && errors == nil || c.ofTranscript(id) && c.ToolCalls != "0" {
		return nil
	}
	at, err := r.parseTime("occurred_at", c.OccurredAt)
	if err != nil {
		return err
	}
	r.touchSession(c.base, at, false)
	r.batch.events = append(r.batch.events, sessions.NewFact(session, id, at, calls, errors))
	return nil
}

// toolCallRecord is one call of a tool, without its input and output.
type toolCallRecord struct {
	base
	ID         *string  `json:"tool_call_id"` // as in the agent's OTLP events
	OccurredAt *string  `json:"occurred_at"`
	Name       *string  `json:"tool_name"`
	DurationMS *float64 `json:"duration_ms"`
	Success    *bool    `json:"success"`
}

// toolCall reads a call of a tool. It is stored with its session only.
func (r *reader) toolCall(c toolCallRecord, _ json.RawMessage) error {
	id, err := required("tool_call_id", c.ID)
	if err != nil {
		return err
	}
	at, err := r.parseTime("occurred_at", c.OccurredAt)
	if err != nil {
		return err
	}
	session, err := r.sessionOf(c.base)
	if err != nil {
		return err
	}
	if c.DurationMS != nil && !(*c.DurationMS >= 0) {
		return errNegative
	}
	r.touchSession(c.base, at, false)
	r.batch.events = append(r.batch.events, sessions.Event{
		Session: session, Kind: sessions.Tool, ID: id, At: at, Name: optional(c.Name), OK: c.Success,
		Duration: milliseconds(c.DurationMS),
	})
	return nil
}

// outcomeRecord is what came of a session, e.g. of the tests that it ran.
type outcomeRecord struct {
	base
	ID         *string `json:"outcome_id"`
	OccurredAt *string `json:"occurred_at"`
	Outcome    *string `json:"outcome"`
	Passed     *bool   `json:"passed"`
}

// outcome reads an outcome. It is stored with its session only.
func (r *reader) outcome(c outcomeRecord, _ json.RawMessage) error {
	id, err := required("outcome_id", c.ID)
	if err != nil {
		return err
	}
	at, err := r.parseTime("occurred_at", c.OccurredAt)
	if err != nil {
		return err
	}
	session, err := r.sessionOf(c.base)
	if err != nil {
		return err
	}
	e, err := sessions.NewOutcome(session, id, optional(c.Outcome), at, c.Passed)
	if err != nil {
		return err
	}
	r.touchSession(c.base, at, false)
	r.batch.events = append(r.batch.events, e)
	return nil
}
