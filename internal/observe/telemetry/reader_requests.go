package telemetry

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// modelRequest reads a request of a transcript. OTLP reports the same one.
func (r *reader) modelRequest(c requestRecord, _ json.RawMessage) error {
	session, err := r.sessionOf(c.base)
	if err != nil {
		return err
	}
	q, err := r.requestOf(c, session)
	if err != nil {
		return err
	}
	if name := optional(c.SkillName); name != "" {
		if q.Skill, err = r.skillOfRequest(name); err != nil {
			return err
		}
	}
	return r.addRequest(c.base, q, c.OccurredAt)
}

// requestOf returns the request of a record, with its id.
func (r *reader) requestOf(c requestRecord, session string) (q costs.Request, err error) {
	tokens, err := c.Read()
	if err != nil && !errors.Is(err, errNoTokens) {
		return q, err
	}
	api, message := optional(c.RequestID), optional(c.MessageID)
	if api == "" && message == "" {
		return q, errors.New("request_id or message_id is required")
	}
	q = costs.Request{Session: session, Turn: optional(c.SourcePromptID), Model: optional(c.Model), Tokens: tokens}
	q.ID = requestID(r.caller, q, api, message)
	return q, nil
}

// factRequest adds what an execution fact reports: the requests of a turn or a
// session as one. It is that of a skill if no other was active.
func (r *reader) factRequest(c factRecord, session, id string) error {
	if strings.HasPrefix(string(c.DurationMS), "-") {
		return errors.New("duration_ms must not be negative")
	}
	tokens, price, err := c.Read()
	if errors.Is(err, errNoTokens) || c.OccurredAt == nil || c.ofTranscript(id) {
		return nil
	}
	if err != nil {
		return err
	}
	q := costs.Request{
		ID: r.id("model_request_fact", session+"\n"+id), Session: session, Turn: textIn(c.PromptID),
		Model: cmp.Or(textIn(c.Model), r.models[session]), Tokens: tokens, Micros: price,
	}
	var active []string
	if json.Unmarshal(c.ActiveSkills, &active) == nil && len(active) == 1 {
		if q.Skill, err = r.skillOfRequest(active[0]); err != nil {
			return err
		}
	}
	return r.addRequest(c.base, q, c.OccurredAt)
}

// ofTranscript reports whether our own import sent a fact, which has the model
// requests of the turn beside it: its id is the name of the transcript and the
// number of the turn.
func (c factRecord) ofTranscript(id string) bool {
	var source struct {
		Path string `json:"path"`
	}
	_ = json.Unmarshal(c.Source, &source) // on an error there is no path
	transcript, ok := strings.CutSuffix(source.Path, ".jsonl")
	return ok && strings.HasPrefix(id, transcript+":t")
}

// skillOfRequest cleans the name of a skill; "" if its producer hides it.
func (r *reader) skillOfRequest(name string) (string, error) {
	if skills.Placeholder(name) {
		r.batch.unattributed++
		return "", nil
	}
	return skills.CleanName(name)
}

// addRequest adds a request, unless its time or its numbers are absurd.
func (r *reader) addRequest(b base, q costs.Request, at *string) (err error) {
	if q.At, err = r.parseTime("occurred_at", at); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return err
	}
	r.batch.requests = append(r.batch.requests, q)
	r.touchSession(b, q.At, false)
	return nil
}
