package telemetry

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A reader turns a push into a batch, record by record.
type reader struct {
	caller access.Caller
	now    time.Time
	batch  batch
	// sessions maps those that records refer to, to whether they have a record
	// of their own: clients often leave that out.
	sessions map[string]bool
	models   map[string]string // by session
}

func newReader(c access.Caller, now time.Time) *reader {
	return &reader{caller: c, now: now, sessions: map[string]bool{}, models: map[string]string{}}
}

// A kind is one array of a push, and the function that reads it. name is the
// singular, which rejections use: "prompt 3: text is required".
type kind struct {
	array, name string
	read        func(r *reader, k kind, array json.RawMessage)
}

// recordKinds returns the arrays in the order in which they are read. Sessions come
// first, since later records take the model from theirs.
func recordKinds() []kind {
	return []kind{
		{"sessions", "session", readAs((*reader).session)},
		{"prompts", "prompt", readAs((*reader).prompt)},
		{"skill_invocations", "skill_invocation", readAs((*reader).invocation)},
		{"skill_offers", "skill_offer", readAs((*reader).offer)},
		{"execution_facts", "execution_fact", readAs((*reader).executionFact)},
		{"model_requests", "model_request", readAs((*reader).modelRequest)},
		{"tool_calls", "tool_call", readAs((*reader).toolCall)},
		{"outcomes", "outcome", readAs((*reader).outcome)},
		{"normalization_runs", "normalization_run", readAs(opaque("normalization_run", "run_id"))},
		{"evolution_evidence", "evolution_evidence", readAs(opaque("evolution_evidence", "evidence_id"))},
		{"orchestrate_runs", "orchestrate_run", readAs(opaque("orchestrate_run", "run_id"))},
		{"grading_results", "grading_result", readAs((*reader).grading)},
		{"improvement_signals", "improvement_signal", readAs((*reader).improvementSignal)},
	}
}

// readAs adapts a function that reads one record to a function that reads the
// array.
func readAs[T any](fn func(*reader, T, json.RawMessage) error) func(*reader, kind, json.RawMessage) {
	return func(r *reader, k kind, array json.RawMessage) {
		err := eachElement(array, func(i int, record *T, text json.RawMessage) {
			var err error
			if record == nil { // decoded once more for the error
				record = new(T)
				err = decode(text, record)
			}
			if err == nil {
				err = fn(r, *record, text)
			}
			r.tally(k.name, i, err)
		})
		if err != nil {
			r.reject(k.name, 0, fmt.Errorf("%s must be an array", k.array))
		}
	}
}

// read reads all records of a push.
func (r *reader) read(e envelope) batch {
	// Arrays with other names are ignored: a newer client may send them.
	for _, k := range recordKinds() {
		raw, ok := e.Canonical[k.array]
		if !ok || string(raw) == "null" {
			continue
		}
		k.read(r, k, raw)
	}
	// Add a record for every session that only other records refer to.
	for id, hasRecord := range r.sessions {
		if hasRecord {
			continue
		}
		r.batch.records = append(r.batch.records, record{
			// Dated back to the epoch, so that any real record of the session wins.
			id: r.id("session", id), kind: "session", normalizedAt: time.Unix(0, 0),
			body: bodyOf(map[string]string{"session_id": id}),
		})
	}
	return r.batch
}

// tally counts a record as accepted, or as rejected because of err.
func (r *reader) tally(kind string, index int, err error) {
	if err != nil {
		r.reject(kind, index, err)
		return
	}
	r.batch.accepted++
}

// reject notes an invalid record. index counts within the array, from 0.
func (r *reader) reject(kind string, index int, err error) {
	r.batch.rejected = append(r.batch.rejected, rejection{Kind: kind, Index: index, Message: err.Error()})
}

// maxAhead is how far a client's clock may be ahead of ours. Laptops wake up with
// wrong clocks; a day also covers mistaken time zones.
const maxAhead = 24 * time.Hour

// parseTime parses a required time. One in the far future is rejected: it would
// stay in every window.
func (r *reader) parseTime(field string, value *string) (time.Time, error) {
	text, err := required(field, value)
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

// normalizedAt returns the version of a report, which orders the reports of one
// record. It is optional, and an invalid one is no reason to lose the record.
func (r *reader) normalizedAt(b base, fallback time.Time) time.Time {
	if t, err := r.parseTime("normalized_at", b.NormalizedAt); err == nil {
		return t
	}
	return fallback
}

// sessionOf returns the session of a record, which must have one.
func (r *reader) sessionOf(b base) (string, error) {
	id, err := required("session_id", b.SessionID)
	if err == nil {
		r.noteSession(id)
	}
	return id, err
}

// noteSession remembers a session, without overwriting that it has a record.
func (r *reader) noteSession(id string) {
	if _, named := r.sessions[id]; !named {
		r.sessions[id] = false
	}
}

// id makes the client's own id unique in the installation: two users may use the
// same.
func (r *reader) id(kind, natural string) string {
	return skills.ID(r.caller.OrgID, r.caller.UserID, kind, natural)
}

// addRecord adds a record to be stored unchanged.
func (r *reader) addRecord(kind, natural string, b base, item json.RawMessage) error {
	r.batch.records = append(r.batch.records, record{
		id: r.id(kind, natural), kind: kind, body: item, normalizedAt: r.normalizedAt(b, time.Unix(0, 0)),
	})
	return nil
}

func (r *reader) session(c sessionRecord, item json.RawMessage) error {
	id, err := required("session_id", c.SessionID)
	if err != nil {
		return err
	}
	r.sessions[id], r.models[id] = true, textIn(c.Model)
	r.sightSession(c)
	return r.addRecord("session", id, c.base, item)
}

func (r *reader) prompt(c promptRecord, _ json.RawMessage) error {
	id, err := required("prompt_id", c.ID)
	if err != nil {
		return err
	}
	at, err := r.parseTime("occurred_at", c.OccurredAt)
	if err != nil {
		return err
	}
	if _, err := r.sessionOf(c.base); err != nil {
		return err
	}
	r.batch.prompts = append(r.batch.prompts, prompt{
		id: id, kind: optional(c.Kind), text: optional(c.Text), at: at, normalizedAt: r.normalizedAt(c.base, at),
	})
	r.promptEvent(c, id, at)
	return nil
}

// invocation reads that a skill was considered, and activated or not. The alias and
// the claim match it with what OTLP reports of the same call: by the tool call if
// there is one, else by the prompt and the name. See skills.Observation.
func (r *reader) invocation(c invocationRecord, _ json.RawMessage) error {
	id, err := required("skill_invocation_id", c.ID)
	if err != nil {
		return err
	}
	at, err := r.parseTime("occurred_at", c.OccurredAt)
	if err != nil {
		return err
	}
	if c.Triggered == nil {
		return errors.New("triggered is required")
	}
	if err := validateShare("confidence", c.Confidence); err != nil {
		return err
	}
	name, hidden, err := skillOf(c.SkillName)
	if err != nil {
		return err
	}
	session, err := r.sessionOf(c.base)
	if err != nil {
		return err
	}
	r.touchSession(c.base, at, false)
	// Counted all the same: a client must learn that its records count for nothing.
	if hidden {
		r.batch.unattributed++
		return nil
	}
	o := skills.Observation{
		ID: r.id("skill_invocation", id), SkillName: name, Unconfirmed: c.Unconfirmed, Session: session,
		PromptID: optional(c.MatchedPromptID), VersionHash: optional(c.VersionHash), Mode: optional(c.Mode),
		Triggered: *c.Triggered, Confidence: c.Confidence, At: at, NormalizedAt: r.normalizedAt(c.base, at),
	}
	prompt := optional(c.SourcePromptID)
	if call := optional(c.ToolCallID); call != "" {
		o.Aliases = []string{callAlias(r.caller, session, call)}
		o.Claim = r.id("tool_call_record", session+"\n"+call)
	} else if prompt != "" && o.Mode == "explicit" {
		o.Aliases = []string{promptAlias(r.caller, session, prompt, name)}
		o.Claim = r.id("prompt_record", session+"\n"+prompt+"\n"+name)
	} else if prompt != "" {
		o.Aliases = []string{turnAlias(r.caller, session, prompt, name)}
		o.Claim = r.id("turn_record", session+"\n"+prompt+"\n"+name)
	}
	r.addInvocation(o, session, prompt, optional(c.ToolCallID) != "")
	return nil
}

// addInvocation adds an invocation. The events of Claude Code report the same one by
// its prompt: the call of a tool or "/name", with the name of the skill or without.
func (r *reader) addInvocation(o skills.Observation, session, prompt string, called bool) {
	if prompt != "" && o.Triggered && (called || o.Mode == "explicit") {
		r.batch.clues = append(r.batch.clues, maskedClue{
			Prompt: promptGroup(r.caller, session, prompt), Kind: dedupRecord, ID: o.Aliases[0], Skill: o.SkillName,
			Observation: skills.Observation{Mode: o.Mode},
		})
	}
	if prompt != "" && o.Triggered && called {
		r.batch.reports = append(r.batch.reports, activationReport{
			Observation: o, By: byCall, Group: activationGroup(r.caller, session, prompt, o.SkillName),
		})
		return
	}
	r.batch.observations = append(r.batch.observations, o)
}

// maxOffers is how many skills one record may offer. Each offer is a row for the
// session and day.
const maxOffers = 1000

// offer reads a list of skills that was shown to the model.
func (r *reader) offer(c offerRecord, _ json.RawMessage) error {
	at, err := r.parseTime("occurred_at", c.OccurredAt)
	if err != nil {
		return err
	}
	session, err := r.sessionOf(c.base)
	if err != nil {
		return err
	}
	if len(c.SkillNames) > maxOffers {
		return fmt.Errorf("skill_names has more than %d names", maxOffers)
	}
	var offers []skills.Observation
	for _, field := range c.SkillNames {
		name, hidden, err := skillOf(&field)
		if err != nil {
			return err
		}
		if !hidden {
			offers = append(offers, skills.Observation{
				SkillName: name, Session: session, Offered: true, At: at, NormalizedAt: at,
			})
		}
	}
	r.touchSession(c.base, at, false)
	r.batch.observations = append(r.batch.observations, offers...)
	return nil
}

// skillOf returns the name of a record's skill, unless its producer hides it.
func skillOf(field *string) (name string, hidden bool, err error) {
	if field == nil {
		return "", false, errors.New("skill_name is required")
	}
	if skills.Placeholder(*field) {
		return "", true, nil
	}
	name, err = skills.CleanName(*field)
	return name, false, err
}

// callAlias is the key of a tool call, by which reports of one activation from
// several producers are deduplicated.
func callAlias(c access.Caller, session, call string) string {
	return skills.ID(c.OrgID, c.UserID, "tool_call", session+"\n"+call)
}

// promptAlias is the key of a skill that a person called by a prompt, e.g. by
// "/name", which is no tool call.
func promptAlias(c access.Caller, session, prompt, skill string) string {
	return skills.ID(c.OrgID, c.UserID, "prompt_call", session+"\n"+prompt+"\n"+skill)
}

// turnAlias is the key of a skill that the agent used in a turn by itself without
// a tool call, of which Codex reports one for each skill.
func turnAlias(c access.Caller, session, turn, skill string) string {
	return skills.ID(c.OrgID, c.UserID, "turn_call", session+"\n"+turn+"\n"+skill)
}

// executionFact makes the session part of the natural key: clients number their
// facts from 1 in every session.
func (r *reader) executionFact(c factRecord, item json.RawMessage) error {
	id, err := c.id()
	if err != nil {
		return err
	}
	session, err := r.sessionOf(c.base)
	if err != nil {
		return err
	}
	if err := r.factRequest(c, session, id); err != nil {
		return err
	}
	if err := r.factCounts(c, session, id); err != nil {
		return err
	}
	return r.addRecord("execution_fact", session+"\n"+id, c.base, item)
}

// A grading's own id is its natural key, so a client changes a verdict by sending
// the same id again.
func (r *reader) grading(c gradingRecord, item json.RawMessage) error {
	id, err := required("grading_id", c.ID)
	if err != nil {
		return err
	}
	at, err := r.parseTime("graded_at", c.GradedAt)
	if err != nil {
		return err
	}
	rate, err := c.passRate()
	if err != nil {
		return err
	}
	name, hidden, err := skillOf(c.SkillName)
	if err != nil {
		return err
	}
	session, err := r.sessionOf(c.base)
	if err != nil {
		return err
	}
	// Provisional: the time of a grade is not one of the session.
	r.touchSession(c.base, at, true)
	if hidden {
		r.batch.unattributed++
		return nil
	}
	r.batch.gradings = append(r.batch.gradings, skills.Grading{
		ID: r.id("grading_result", id), SkillName: name, Session: session, PassRate: rate, At: at,
	})
	return r.addRecord("grading_result", id, c.base, item)
}

// opaque reads a record of a kind that the service stores without interpreting it.
func opaque(kind, idField string) func(*reader, base, json.RawMessage) error {
	return func(r *reader, b base, item json.RawMessage) error {
		// Only the id is looked at; the rest is kept as sent, for exports.
		var fields map[string]json.RawMessage
		if err := decode(item, &fields); err != nil {
			return err
		}
		var id string
		if err := json.Unmarshal(fields[idField], &id); err != nil || id == "" || len(id) > maxText {
			return fmt.Errorf("%s is required and must be a string", idField)
		}
		if b.SessionID != nil && *b.SessionID != "" {
			r.noteSession(*b.SessionID)
		}
		return r.addRecord(kind, id, b, item)
	}
}
