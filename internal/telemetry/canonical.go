package telemetry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/skills"
)

// envelope is the body of a push, canonical schema 2.0.
type envelope struct {
	PushID    string                     `json:"push_id"`
	Canonical map[string]json.RawMessage `json:"canonical"`
}

// canonical holds the fields of all record kinds that the service looks at.
// What else a record says is kept with it.
type canonical struct {
	SessionID         *string  `json:"session_id"`
	NormalizedAt      *string  `json:"normalized_at"`
	OccurredAt        *string  `json:"occurred_at"`
	PromptID          *string  `json:"prompt_id"`
	PromptText        *string  `json:"prompt_text"`
	PromptKind        *string  `json:"prompt_kind"`
	SkillInvocationID *string  `json:"skill_invocation_id"`
	MatchedPromptID   *string  `json:"matched_prompt_id"`
	SkillName         *string  `json:"skill_name"`
	SkillVersionHash  *string  `json:"skill_version_hash"`
	InvocationMode    *string  `json:"invocation_mode"`
	Triggered         *bool    `json:"triggered"`
	Confidence        *float64 `json:"confidence"`
	ToolCallID        *string  `json:"tool_call_id"`
	ExecutionFactID   *any     `json:"execution_fact_id"` // some clients send a number
	GradingID         *string  `json:"grading_id"`
	GradedAt          *string  `json:"graded_at"`
	PassRate          *float64 `json:"pass_rate"`
	PassedCount       *float64 `json:"passed_count"`
	TotalCount        *float64 `json:"total_count"`
}

// A reader makes a batch of a push, record by record.
type reader struct {
	caller access.Caller
	now    time.Time
	batch  batch
	// sessions that records name; clients often leave their own records out.
	sessions map[string]bool
}

func newReader(c access.Caller, now time.Time) *reader {
	return &reader{caller: c, now: now, sessions: map[string]bool{}}
}

// A kind is one array of a push and the way its records are read.
type kind struct {
	array, name string
	read        func(r *reader, c canonical, body map[string]json.RawMessage) error
}

func recordKinds() []kind {
	return []kind{
		{"sessions", "session", (*reader).session},
		{"prompts", "prompt", (*reader).prompt},
		{"skill_invocations", "skill_invocation", (*reader).invocation},
		{"execution_facts", "execution_fact", (*reader).executionFact},
		{"normalization_runs", "normalization_run", keep("normalization_run", "run_id")},
		{"evolution_evidence", "evolution_evidence", keep("evolution_evidence", "evidence_id")},
		{"orchestrate_runs", "orchestrate_run", keep("orchestrate_run", "run_id")},
		{"grading_results", "grading_result", (*reader).grading},
		{"improvement_signals", "improvement_signal", keep("improvement_signal", "signal_id")},
	}
}

// read reads all records of the push.
func (r *reader) read(e envelope) batch {
	for _, k := range recordKinds() {
		raw, ok := e.Canonical[k.array]
		if !ok || string(raw) == "null" {
			continue
		}
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			r.reject(k.name, 0, fmt.Errorf("%s must be an array", k.array))
			continue
		}
		for i, item := range items {
			if err := r.one(k, item); err != nil {
				r.reject(k.name, i, err)
				continue
			}
			r.batch.accepted++
		}
	}
	r.addSessions()
	return r.batch
}

func (r *reader) reject(kind string, index int, err error) {
	r.batch.rejected = append(r.batch.rejected, rejection{Kind: kind, Index: index, Message: err.Error()})
}

func (r *reader) one(k kind, item json.RawMessage) error {
	var c canonical
	if err := json.Unmarshal(item, &c); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return fmt.Errorf("%s must not be a %s", wrong.Field, wrong.Value)
		}
		return errors.New("the record must be an object")
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(item, &body); err != nil || body == nil {
		return errors.New("the record must be an object")
	}
	return k.read(r, c, body)
}

// need returns a required text.
func need(field string, value *string) (string, error) {
	if value == nil || strings.TrimSpace(*value) == "" {
		return "", fmt.Errorf("%s is required", field)
	}
	if len(*value) > maxText || strings.ContainsRune(*value, 0) {
		return "", fmt.Errorf("%s is too long or holds a NUL character", field)
	}
	return *value, nil
}

// maxText bounds names and ids.
const maxText = 1024

// maxAhead is how far a client's clock may run ahead of ours.
const maxAhead = 24 * time.Hour

// when reads a time. A far future would sit in every window for ever.
func (r *reader) when(field string, value *string) (time.Time, error) {
	text, err := need(field, value)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s must be an ISO 8601 time with an offset", field)
	}
	if t.After(r.now.Add(maxAhead)) || t.Year() < 1970 {
		return time.Time{}, fmt.Errorf("%s lies too far in the future or the past", field)
	}
	return t, nil
}

// normalizedAt orders reports; a record without one is as old as its time.
func (r *reader) normalizedAt(c canonical, fallback time.Time) time.Time {
	if t, err := r.when("normalized_at", c.NormalizedAt); err == nil {
		return t
	}
	return fallback
}

func (r *reader) sessionOf(c canonical) (string, error) {
	id, err := need("session_id", c.SessionID)
	if err == nil {
		r.sessions[id] = true
	}
	return id, err
}

func (r *reader) id(kind, natural string) string {
	return skills.ID(r.caller.OrgID, r.caller.UserID, kind, natural)
}

func (r *reader) keep(kind, natural string, c canonical, body map[string]json.RawMessage) {
	r.batch.records = append(r.batch.records, record{
		id: r.id(kind, natural), kind: kind, body: body, normalizedAt: r.normalizedAt(c, time.Unix(0, 0)),
	})
}

func (r *reader) session(c canonical, body map[string]json.RawMessage) error {
	id, err := need("session_id", c.SessionID)
	if err != nil {
		return err
	}
	delete(r.sessions, id)
	r.keep("session", id, c, body)
	return nil
}

// addSessions keeps a record for every session that others name.
func (r *reader) addSessions() {
	for _, known := range r.batch.records {
		if known.kind == "session" {
			var id string
			_ = json.Unmarshal(known.body["session_id"], &id) // read once already
			delete(r.sessions, id)
		}
	}
	for id := range r.sessions {
		name, _ := json.Marshal(id) // text always marshals
		r.keep("session", id, canonical{}, map[string]json.RawMessage{"session_id": name})
	}
}

func (r *reader) prompt(c canonical, _ map[string]json.RawMessage) error {
	id, err := need("prompt_id", c.PromptID)
	if err != nil {
		return err
	}
	if _, err := r.sessionOf(c); err != nil {
		return err
	}
	at, err := r.when("occurred_at", c.OccurredAt)
	if err != nil {
		return err
	}
	p := prompt{id: id, at: at, normalizedAt: r.normalizedAt(c, at)}
	if c.PromptText != nil {
		p.text = strings.ReplaceAll(*c.PromptText, "\x00", "")
	}
	if c.PromptKind != nil {
		p.kind = *c.PromptKind
	}
	r.batch.prompts = append(r.batch.prompts, p)
	return nil
}

func (r *reader) invocation(c canonical, _ map[string]json.RawMessage) error {
	id, err := need("skill_invocation_id", c.SkillInvocationID)
	if err != nil {
		return err
	}
	session, err := r.sessionOf(c)
	if err != nil {
		return err
	}
	at, err := r.when("occurred_at", c.OccurredAt)
	if err != nil {
		return err
	}
	if c.Triggered == nil {
		return errors.New("triggered is required")
	}
	if err := checkShare("confidence", c.Confidence); err != nil {
		return err
	}
	name, hidden, err := skillOf(c)
	if err != nil {
		return err
	}
	if hidden {
		r.batch.unattributed++
		return nil
	}
	o := skills.Observation{
		ID: r.id("skill_invocation", id), SkillName: name, Session: session,
		PromptID: deref(c.MatchedPromptID), VersionHash: deref(c.SkillVersionHash), Mode: deref(c.InvocationMode),
		Triggered: *c.Triggered, Confidence: c.Confidence, At: at, NormalizedAt: r.normalizedAt(c, at),
	}
	if call := deref(c.ToolCallID); call != "" {
		o.Aliases = []string{callAlias(r.caller, session, call)}
	}
	r.batch.observations = append(r.batch.observations, o)
	return nil
}

// skillOf is the name of the skill that a record speaks of, unless its
// producer hides it.
func skillOf(c canonical) (name string, hidden bool, err error) {
	name, err = need("skill_name", c.SkillName)
	if err != nil || skills.Placeholder(name) {
		return "", err == nil, err
	}
	name, err = skills.CleanName(name)
	return name, false, err
}

// callAlias names a tool call of a session: the key by which reports of one
// activation from several producers find each other.
func callAlias(c access.Caller, session, call string) string {
	return skills.ID(c.OrgID, c.UserID, "tool_call", session+"\n"+call)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func checkShare(field string, share *float64) error {
	if share != nil && !(*share >= 0 && *share <= 1) {
		return fmt.Errorf("%s must be between 0 and 1", field)
	}
	return nil
}

// executionFact takes the session into the natural id: clients number their
// facts from 1 in every session.
func (r *reader) executionFact(c canonical, body map[string]json.RawMessage) error {
	session, err := r.sessionOf(c)
	if err != nil {
		return err
	}
	if c.ExecutionFactID == nil {
		return errors.New("execution_fact_id is required")
	}
	r.keep("execution_fact", fmt.Sprintf("%s\n%v", session, *c.ExecutionFactID), c, body)
	return nil
}

func (r *reader) grading(c canonical, body map[string]json.RawMessage) error {
	id, err := need("grading_id", c.GradingID)
	if err != nil {
		return err
	}
	session, err := r.sessionOf(c)
	if err != nil {
		return err
	}
	at, err := r.when("graded_at", c.GradedAt)
	if err != nil {
		return err
	}
	rate, err := passRate(c)
	if err != nil {
		return err
	}
	name, hidden, err := skillOf(c)
	if err != nil {
		return err
	}
	if hidden {
		r.batch.unattributed++
		return nil
	}
	r.batch.gradings = append(r.batch.gradings, skills.Grading{
		ID: r.id("grading_result", id), SkillName: name, Session: session, PassRate: rate, At: at,
	})
	r.keep("grading_result", id, c, body)
	return nil
}

// passRate is the rate itself, else what the counts say; nil when neither does.
func passRate(c canonical) (*float64, error) {
	if err := checkShare("pass_rate", c.PassRate); err != nil {
		return nil, err
	}
	if c.PassRate != nil || c.PassedCount == nil || c.TotalCount == nil || *c.TotalCount <= 0 {
		return c.PassRate, nil
	}
	rate := *c.PassedCount / *c.TotalCount
	return &rate, checkShare("passed_count / total_count", &rate)
}

// keep reads a record of a kind that the service keeps without looking inside.
func keep(kind, idField string) func(*reader, canonical, map[string]json.RawMessage) error {
	return func(r *reader, c canonical, body map[string]json.RawMessage) error {
		var id string
		if err := json.Unmarshal(body[idField], &id); err != nil || id == "" || len(id) > maxText {
			return fmt.Errorf("%s is required and must be a string", idField)
		}
		if c.SessionID != nil && *c.SessionID != "" {
			r.sessions[*c.SessionID] = true
		}
		r.keep(kind, id, c, body)
		return nil
	}
}
