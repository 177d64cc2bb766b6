package sessions

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// Ingest adds a report, each event once. It must run in the transaction that
// stores the report, when skills.Observe calls for what follows: the skills of a
// session are what that made of the same reports.
func (s *Service) Ingest(ctx context.Context, tx *store.Tx, r Report) (err error) {
	defer fault.Wrap(&err, "sessions")
	in := newIngestion(tx, r)
	// Nothing to do; the lock would serialise for nothing.
	if len(in.sessions)+len(r.Skills.Touched)+len(r.Skills.Removed) == 0 {
		return nil
	}
	// Reports of one user are serialised, so nothing changes between reading and
	// writing. Rows of different users never meet.
	if err := skills.LockUser(ctx, tx, r.UserID); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		in.loadSessions, in.loadEvents, in.ingestEvents, in.ingestSkills, in.writeSessions,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	// New events may change what a judge would say, so grading is scheduled anew.
	if s.OnReported == nil || len(in.events) == 0 {
		return nil
	}
	return s.OnReported.Reported(ctx, tx, r.OrgID, slices.Sorted(maps.Keys(in.sessions)))
}

// Follow brings the skills and activations of a user's sessions up to date with what
// skills has changed. It implements skills.OnAttributed.
func (s *Service) Follow(ctx context.Context, tx *store.Tx, orgID, userID string, c skills.Changes) error {
	return s.Ingest(ctx, tx, Report{OrgID: orgID, UserID: userID, Skills: c})
}

// ingestion is the processing of one report.
type ingestion struct {
	tx       *store.Tx
	report   Report
	known    map[string]Session  // as stored, by id
	sessions map[string]*Session // as they will be stored, by id
	events   map[eventKey]event  // the reported ones and the activations
	stored   map[eventKey]event  // what is stored of these, and of activations that are no more
}

// An eventKey is the key of an event. Ids of events are unique within their session
// only.
type eventKey struct{ session, id string }

func (e event) key() eventKey { return eventKey{e.session, e.id} }

// newIngestion collects the sessions and the events of a report.
func newIngestion(tx *store.Tx, r Report) *ingestion {
	in := &ingestion{tx: tx, report: r, sessions: map[string]*Session{}, events: map[eventKey]event{}}
	for _, g := range r.Sightings {
		if g.Session == "" {
			continue
		}
		s := in.session(g.Session, g.At, g.Outside)
		// The greater name, "" being the least: independent of the order of arrival.
		s.Agent = max(s.Agent, cleanName(g.Agent))
		if g.EndedAt != nil {
			ended := micros(*g.EndedAt)
			s.EndedAt = latest(s.EndedAt, &ended)
			s.extend(ended, ended, false)
		}
	}
	for _, reported := range r.Events {
		if reported.Session == "" {
			continue
		}
		in.session(reported.Session, reported.At, false)
		e := reported.stored(r.UserID)
		if earlier, ok := in.events[e.key()]; ok {
			e = merge(earlier, e)
		}
		in.events[e.key()] = e
	}
	return in
}

// session returns the session with the agent's own id, at a time of it.
func (in *ingestion) session(sessionID string, at time.Time, provisional bool) *Session {
	id := skills.SessionHash(in.report.UserID, sessionID)
	at = micros(at)
	s := in.sessions[id]
	if s == nil {
		s = &Session{
			// ReportedAt is truncated to the hour, so that a busy session's row and
			// its index are not rewritten for every report; expiry needs no more.
			ID: id, OrgID: in.report.OrgID, UserID: in.report.UserID, SessionID: sessionID, StartedAt: at, LastAt: at,
			Provisional: true, ReportedAt: store.Now().Truncate(time.Hour),
		}
		// An id of another shape could hold anything, e.g. a path: only its hash is
		// stored.
		if !idShape.MatchString(sessionID) {
			s.SessionID = id
		}
		in.sessions[id] = s
	}
	s.extend(at, at, provisional)
	return s
}

// extend makes a session last from a time at the latest, and to a time at least.
// Provisional times count only while there are no others.
func (s *Session) extend(from, to time.Time, provisional bool) {
	if provisional && !s.Provisional {
		return
	}
	// The first real time replaces the provisional range instead of widening it.
	if s.Provisional && !provisional {
		s.Provisional, s.StartedAt, s.LastAt = false, from, to
	}
	if from.Before(s.StartedAt) {
		s.StartedAt = from
	}
	if to.After(s.LastAt) {
		s.LastAt = to
	}
}

// micros truncates to what the database stores, so that equality survives a round
// trip.
func micros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// latest returns the later of two times, of which any may be missing.
func latest(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.After(*a) {
		return b
	}
	return a
}

// loadSessions merges the reported sessions with the stored ones, and adds those
// whose skills changed.
func (in *ingestion) loadSessions(ctx context.Context) (err error) {
	ids := slices.Collect(maps.Keys(in.sessions))
	for _, s := range in.report.Skills.Touched {
		ids = append(ids, s.Hash)
	}
	for _, c := range in.report.Skills.Removed {
		ids = append(ids, c.Session)
	}
	if in.known, err = sessionsByID(ctx, in.tx, ids); err != nil {
		return err
	}
	for id, old := range in.known {
		// A copy: in.known keeps what is stored, to compare with.
		merged := old
		if s := in.sessions[id]; s != nil {
			merged.Agent = max(old.Agent, s.Agent)
			merged.EndedAt = latest(old.EndedAt, s.EndedAt)
			merged.extend(s.StartedAt, s.LastAt, s.Provisional)
			merged.ReportedAt = s.ReportedAt
		}
		in.sessions[id] = &merged
	}
	return nil
}

// loadEvents adds the activations to the reported events, which skills has merged and
// deduplicated, and reads what is stored of all these.
func (in *ingestion) loadEvents(ctx context.Context) (err error) {
	for _, c := range in.report.Skills.Checks {
		if in.sessions[c.Session] == nil { // e.g. a trace, which is no session
			continue
		}
		e := event{session: c.Session, id: c.ID, kind: Activation, at: c.At, name: c.Skill, ok: &c.Triggered}
		in.events[e.key()] = e
	}
	keys := slices.Collect(maps.Keys(in.events))
	for _, c := range in.report.Skills.Removed {
		keys = append(keys, eventKey{c.Session, c.ID})
	}
	keys = slices.DeleteFunc(keys, func(k eventKey) bool { return in.isUnknown(k.session) })
	in.stored, err = eventsByKey(ctx, in.tx, keys)
	return err
}

// isUnknown reports whether nothing is stored of a session.
func (in *ingestion) isUnknown(id string) bool {
	_, known := in.known[id]
	return !known
}

// ingestEvents stores the events, and adds the difference to the counters of their
// sessions. Reports of an event are merged; an activation is as skills has it now.
func (in *ingestion) ingestEvents(ctx context.Context) error {
	var gone []eventKey
	for key, old := range in.stored {
		if _, ok := in.events[key]; !ok {
			// Stored but no more reported: only Removed activations, whose keys
			// loadEvents asked for.
			in.sessions[key.session].count(old, -1)
			gone = append(gone, key)
		}
	}
	var changed []event
	// By time, so that of too many events the earliest are kept, whatever order a
	// map has.
	for _, key := range slices.SortedFunc(maps.Keys(in.events), func(a, b eventKey) int {
		return cmp.Or(in.events[a].at.Compare(in.events[b].at), cmp.Compare(a.session, b.session), cmp.Compare(a.id, b.id))
	}) {
		e, s := in.events[key], in.sessions[key.session]
		old, isKnown := in.stored[key]
		// Skills has merged the reports of an activation already.
		if isKnown && e.kind != Activation {
			e = merge(old, e)
		}
		if isKnown && e.equal(old) || !isKnown && !s.room() {
			continue
		}
		if isKnown {
			s.count(old, -1)
		}
		s.count(e, +1)
		s.extend(e.at, e.end(), false)
		changed = append(changed, e)
	}
	if err := deleteEvents(ctx, in.tx, gone); err != nil {
		return err
	}
	return writeEvents(ctx, in.tx, changed)
}

// room reports whether one more event can be stored. The limit keeps a runaway agent
// from filling the database; the session says so on its page.
func (s *Session) room() bool {
	if s.Events < maxEvents {
		return true
	}
	s.Truncated = true
	return false
}

// count adds an event to the counters, or with sign -1 takes it out. It must mirror
// the kinds exactly: taking out must undo what adding did.
func (s *Session) count(e event, sign int64) {
	s.Events += sign
	switch e.kind {
	case Prompt:
		s.Turns += sign
	case UnnamedPrompt:
		s.UnnamedTurns += sign
	case Tool:
		s.ToolCalls += sign
		if e.ok != nil && !*e.ok {
			s.ToolErrors += sign
		}
	case Fact:
		calls, errors := e.factTexts()
		if n, err := strconv.ParseInt(calls, 10, 64); err == nil {
			s.CallFacts, s.FactCalls = s.CallFacts+sign, s.FactCalls+sign*n
		}
		if n, err := strconv.ParseInt(errors, 10, 64); err == nil {
			s.ErrorFacts, s.FactErrors = s.ErrorFacts+sign, s.FactErrors+sign*n
		}
	// Not counted here; listed so that the linter finds a new kind without a case.
	case Activation, Response, Graded, Error:
	}
}

// ingestSkills brings the skills of sessions up to date with what skills knows of
// them now. These are absolute values, not differences, so a session whose data
// was erased starts anew.
func (in *ingestion) ingestSkills(ctx context.Context) error {
	var touched []skills.Session
	ids := map[string]bool{}
	for _, s := range in.report.Skills.Touched {
		if in.sessions[s.Hash] != nil {
			touched = append(touched, s)
			ids[s.Hash] = true
		}
	}
	if len(touched) == 0 {
		return nil
	}
	uses, err := in.report.Skills.Uses(ctx, in.tx)
	if err != nil {
		return err
	}
	stored, err := skillsOfSessions(ctx, in.tx, slices.DeleteFunc(slices.Collect(maps.Keys(ids)), in.isUnknown))
	if err != nil {
		return err
	}
	bySession := map[string]map[string]Skill{}
	for id := range ids {
		bySession[id] = map[string]Skill{}
	}
	for _, k := range stored {
		bySession[k.SessionID][k.SkillID] = k
	}
	var changed []Skill
	var gone [][2]string
	for _, t := range touched {
		use, all := uses[t], bySession[t.Hash]
		// Nothing is left of the skill in this session, e.g. after a report was
		// corrected.
		if !use.Seen && use.Grade == nil {
			if _, ok := all[t.SkillID]; ok {
				delete(all, t.SkillID)
				gone = append(gone, [2]string{t.Hash, t.SkillID})
			}
			continue
		}
		old, isKnown := all[t.SkillID]
		// Further ones are dropped: no real session has as many.
		if !isKnown && len(all) == maxSkills {
			continue
		}
		k := Skill{
			SessionID: t.Hash, SkillID: t.SkillID, Activated: use.Activated, Offered: use.Offered, VersionID: use.VersionID,
		}
		if use.Grade != nil {
			k.PassRate, k.Basis = &use.Grade.PassRate, use.Grade.Basis
		}
		k.Outcome = outcomeOf(k.PassRate)
		if all[t.SkillID] = k; !isKnown || !k.equal(old) {
			changed = append(changed, k)
		}
	}
	for id, all := range bySession {
		in.sessions[id].grade(slices.Collect(maps.Values(all)))
	}
	if err := deleteSkills(ctx, in.tx, gone); err != nil {
		return err
	}
	return writeSkills(ctx, in.tx, changed, in.sessions)
}

// equal reports whether a skill of a session needs no update. The outcome follows
// from the pass rate, and names are joined when read.
func (k Skill) equal(o Skill) bool {
	return k.Activated == o.Activated && k.Offered == o.Offered && same(k.VersionID, o.VersionID) &&
		same(k.PassRate, o.PassRate) &&
		k.Basis == o.Basis
}

// grade sets the grade of a session: the mean over its graded skills. It is an
// unweighted mean: each skill is one verdict, however often it was used.
func (s *Session) grade(all []Skill) {
	var sum, count int64
	s.PassRate, s.Basis = nil, ""
	for _, k := range all {
		if k.PassRate == nil {
			continue
		}
		sum += *k.PassRate
		// k is a copy of the loop, so this changes only what s.Basis becomes.
		if count++; count > 1 && k.Basis != s.Basis {
			k.Basis = basis.Mixed
		}
		s.Basis = k.Basis
	}
	if count > 0 {
		mean := (2*sum + count) / (2 * count) // rounded
		s.PassRate = &mean
	}
	s.Outcome = outcomeOf(s.PassRate)
}

// writeSessions stores the sessions that are new or changed. It leaves the indexed
// columns alone where it can: SQLite would write all their indexes again. A long
// session is reported hundreds of times, nearly always changing counters only.
func (in *ingestion) writeSessions(ctx context.Context) error {
	var fresh, changed, relisted, moved []Session
	for _, id := range slices.Sorted(maps.Keys(in.sessions)) {
		s := *in.sessions[id]
		old, isKnown := in.known[id]
		if !isKnown {
			fresh = append(fresh, s)
			continue
		}
		if !equalCounts(s, old) {
			changed = append(changed, s)
		}
		if s.Agent != old.Agent || !s.StartedAt.Equal(old.StartedAt) || s.ToolErrors != old.ToolErrors ||
			s.FactErrors != old.FactErrors || s.Outcome != old.Outcome ||
			!s.ReportedAt.Equal(old.ReportedAt) {
			relisted = append(relisted, s)
		}
		if !s.StartedAt.Equal(old.StartedAt) {
			moved = append(moved, s)
		}
	}
	if err := insertSessions(ctx, in.tx, fresh); err != nil {
		return err
	}
	if err := updateSessions(ctx, in.tx, changed, counted); err != nil {
		return err
	}
	if err := updateSessions(ctx, in.tx, relisted, listed); err != nil {
		return err
	}
	return moveSkills(ctx, in.tx, moved)
}

// equalCounts compares the columns counted.
func equalCounts(a, b Session) bool {
	return a.LastAt.Equal(b.LastAt) && a.Provisional == b.Provisional && sameTime(a.EndedAt, b.EndedAt) && a.Counts == b.Counts &&
		a.Events == b.Events && a.Truncated == b.Truncated && same(a.PassRate, b.PassRate) &&
		a.Basis == b.Basis
}

func sameTime(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }
