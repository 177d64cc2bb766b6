package sessions

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// What who grades sessions reads of them.

// Find returns a session of the caller's organisation by the agent's own id, as Get
// does, with its skills.
func (s *Service) Find(ctx context.Context, c access.Caller, sessionID string) (_ Session, err error) {
	defer fault.Wrap(&err, "session")
	one, err := sessionOf(ctx, s.DB, c.OrgID, c.UserID, sessionID)
	if err != nil {
		return one, err
	}
	all := []Session{one}
	err = s.addSkills(ctx, all)
	return all[0], err
}

// ByID returns sessions by their pseudonyms, without their skills.
func (s *Service) ByID(ctx context.Context, ids []string) (map[string]Session, error) {
	return sessionsByID(ctx, s.DB, ids)
}

// Exists reports whether a session exists, by its pseudonym. The row stays locked until
// the transaction ends, so that it can't be deleted.
func (s *Service) Exists(ctx context.Context, tx *store.Tx, id string) (bool, error) {
	rows, err := tx.Query(ctx, `SELECT id FROM agent_sessions WHERE id = $1`+tx.Dialect().ForKeyShare(), id)
	found, err := store.All(rows, err, store.Value[string])
	return len(found) > 0, err
}

// A Use is a session that activated a skill.
type Use struct {
	Session string // its pseudonym
	SkillID string
	UserID  string
}

// Ungraded returns the skills that sessions activated, and for which they have no
// grade, or one by their outcomes only.
func (s *Service) Ungraded(ctx context.Context, q store.Querier, ids []string) ([]Use, error) {
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `
		SELECT k.session_id, k.skill_id, s.user_id FROM agent_session_skills k JOIN agent_sessions s ON s.id = k.session_id
		WHERE k.session_id`+in+` AND k.activated AND k.basis IN ('', 'outcome') ORDER BY k.session_id, k.skill_id`, list)
	return store.All(rows, err, func(row store.Row) (u Use, err error) {
		err = row.Scan(&u.Session, &u.SkillID, &u.UserID)
		return u, err
	})
}

// A Signal is that tool calls of one name failed in a session, that an error of one
// name happened, or what a reported outcome is.
type Signal struct {
	Kind Kind // Tool, Error or Graded
	Name string
	OK   bool // of an outcome
}

// Signals returns the signals of sessions by their pseudonyms, each once.
func (s *Service) Signals(ctx context.Context, ids []string) (map[string][]Signal, error) {
	in, list := s.DB.Dialect().In("$1", ids)
	rows, err := s.DB.Query(ctx, `
		SELECT DISTINCT session_id, kind, name FROM agent_session_events
		WHERE session_id`+in+` AND (kind = 'error' OR kind = 'tool' AND NOT ok) ORDER BY session_id, kind, name`, list)
	signals := map[string][]Signal{}
	add := func(session string, g Signal) { signals[session] = append(signals[session], g) }
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var g Signal
		err := row.Scan(&id, &g.Kind, &g.Name)
		add(id, g)
		return err
	})
	if err != nil {
		return nil, err
	}
	return signals, outcomesOf(ctx, s.DB, ids, add)
}

// outcomesOf returns the reported outcomes of sessions as signals, one of each name:
// of tests the last ones count, of commits that one was lost.
func outcomesOf(ctx context.Context, q store.Querier, ids []string, add func(session string, g Signal)) error {
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `
		SELECT session_id, name, ok FROM (
			SELECT session_id, name, ok, ROW_NUMBER() OVER (PARTITION BY session_id, name
				ORDER BY CASE WHEN name = $2 AND NOT ok THEN 0 ELSE 1 END, at DESC, id DESC) AS place
			FROM agent_session_events WHERE session_id`+in+` AND kind = 'grade' AND ok IS NOT NULL
		) AS o WHERE place = 1 ORDER BY session_id, name`, list, CommitSurvived)
	return store.Each(rows, err, func(row store.Row) error {
		var id string
		g := Signal{Kind: Graded}
		err := row.Scan(&id, &g.Name, &g.OK)
		add(id, g)
		return err
	})
}
