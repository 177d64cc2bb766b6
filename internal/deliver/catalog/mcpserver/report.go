package mcpserver

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// What clients do is counted only in sessions that they name: this protocol has
// none, and a session that we made up would be one more beside that of the agent's
// telemetry, in which the skill is never used.

// sessionKey is where a message names the session of the agent.
const sessionKey = metaPrefix + "session"

// sessionShape matches the ids of sessions that are counted. The shapes that agents
// use, e.g. UUIDs; anything else could be text of a person.
var sessionShape = regexp.MustCompile(`^[A-Za-z0-9_.:+-]{1,200}$`)

// sessionOf is the session that the _meta of a message names, "" without one.
func sessionOf(params interface{ GetMeta() map[string]any }) string {
	id, _ := params.GetMeta()[sessionKey].(string)
	return id
}

// session is the one that an argument names, or else the message.
func (v *visit) session(argument string) string {
	if argument != "" {
		return argument
	}
	return v.named
}

// invocation and offer are records of the push API, with the fields that are known
// here.
type invocation struct {
	ID         string `json:"skill_invocation_id"`
	SessionID  string `json:"session_id"`
	OccurredAt string `json:"occurred_at"`
	SkillName  string `json:"skill_name"`
	Hash       string `json:"skill_version_hash"`
	Triggered  bool   `json:"triggered"`
}

type offer struct {
	SessionID  string   `json:"session_id"`
	OccurredAt string   `json:"occurred_at"`
	SkillNames []string `json:"skill_names"`
}

// offered counts skills of the caller's own organisation as offered in a session of
// the agent. Those of others would fill the organisation's list with names.
func (s *Service) offered(v *visit, session string, list []*registry.Listed) {
	var names []string
	for _, l := range list {
		if l.OrgID == v.caller.OrgID {
			names = append(names, l.Name)
		}
	}
	if !s.counts(v, session) || len(names) == 0 {
		return
	}
	now := time.Now().UTC()
	// The same list in the same session and day is one offer, however often it is
	// asked for.
	key := "offered\n" + session + "\n" + now.Format(time.DateOnly) + "\n" + strings.Join(names, "\n")
	// The answer to the model must not fail because statistics do.
	if err := s.ingest(v, key, map[string]any{"skill_offers": []offer{{session, now.Format(time.RFC3339Nano), names}}}); err != nil {
		s.Log.Warn("what a client was shown was not recorded", "error", err)
	}
}

// used counts that the model loaded a skill in a session of the agent, unless the
// agent's telemetry has said so already.
func (s *Service) used(v *visit, session string, l registry.Listed) {
	if !s.counts(v, session) {
		return
	}
	if err := s.activate(v, session, l); err != nil {
		s.Log.Warn("the use of a skill was not recorded", "skill", l.Name, "error", err)
	}
}

// counts reports whether what a client does in a session is counted.
func (s *Service) counts(v *visit, session string) bool {
	return s.Telemetry != nil && v.caller.May(access.TelemetryWrite) && sessionShape.MatchString(session) &&
		s.api.CheckRoom(httpapi.Route{Method: "POST", Permission: access.TelemetryWrite}) == nil
}

// ingest pushes records to telemetry as a client of the caller would. The push_id is
// derived from the key, so that Push deduplicates.
func (s *Service) ingest(v *visit, key string, records map[string]any) error {
	raw, err := json.Marshal(map[string]any{
		"schema_version": "2.0", "push_id": uuid.NewSHA1(uuid.MustParse("0d1f6d7e-5a2c-4f0b-8a53-9c1de3b07a64"),
			[]byte(v.caller.OrgID+"\n"+v.caller.UserID+"\n"+key)), "canonical": records,
	})
	if err != nil {
		return err
	}
	result, err := s.Telemetry.Push(v.ctx, v.caller, raw)
	if err == nil && len(result.Rejected) > 0 {
		err = fault.New(fault.Malformed, "%s", result.Rejected[0].Message)
	}
	return err
}

// activate records that a session used a skill.
func (s *Service) activate(v *visit, session string, l registry.Listed) error {
	known, err := s.Sessions.Find(v.ctx, v.caller, session)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	for _, k := range known.Skills {
		// The agent's own telemetry says more, e.g. how the skill was called.
		if k.Name == l.Name && grades.Gradable(k) {
			return nil
		}
	}
	id := "mcp:" + session + ":" + l.Name
	return s.ingest(v, "used\n"+id, map[string]any{"skill_invocations": []invocation{
		{id, session, time.Now().UTC().Format(time.RFC3339Nano), l.Name, l.Current.ContentHash, true},
	}})
}

// grade stores the outcome of a skill as a grade of the session. Its basis is that of
// a producer: a model that reports its own work does not outweigh people.
func (s *Service) grade(v *visit, in outcomeInput) (sessions.Grade, string, error) {
	if !sessionShape.MatchString(in.Session) {
		return sessions.Grade{}, "", fault.Invalid("session", "session must be 1 to 200 letters, digits and _ . : + -")
	}
	verdict := grades.Verdict{SessionID: in.Session, Passed: in.Passed, Reason: in.Note, Basis: basis.Pushed}
	if text.Valid(in.Note) {
		// Models quote what they have seen, which may include secrets.
		verdict.Reason = content.Redact(in.Note)
	}
	if verdict.Check() != nil {
		return sessions.Grade{}, "", fault.Invalid("note", "note must be text of at most %d bytes", grades.MaxReason)
	}
	l, _, err := s.named(v, in.Skill, "")
	if err != nil {
		return sessions.Grade{}, "", err
	}
	// A session that never used the skill could not be graded for it.
	if err := s.activate(v, in.Session, l); err != nil {
		return sessions.Grade{}, "", err
	}
	verdict.Skill = l.Name
	return s.Grades.Grade(v.ctx, v.caller, verdict)
}
