package skills

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skills/basis"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Check is that a skill was considered in a session, as it is stored.
type Check struct {
	ID        string
	Session   string // the session's pseudonym, see SessionHash
	Skill     string // its name
	Triggered bool
	At        time.Time
}

// A SessionUse is what a session did with a skill.
type SessionUse struct {
	SessionState
	Seen      bool // it was offered, considered or activated
	Activated bool
	Offered   bool
}

// Sessions is a hook for the sessions that people can open.
type Sessions interface {
	// Follow is called in the transaction that attributes what a user reported anew.
	Follow(ctx context.Context, tx *store.Tx, orgID, userID string, c Changes) error
}

// SessionUses returns what sessions did with skills.
func SessionUses(ctx context.Context, q store.Querier, sessions []Session) (map[Session]SessionUse, error) {
	states, err := SessionStates(ctx, q, sessions)
	if err != nil {
		return nil, err
	}
	days, err := sessionDays(ctx, q, columnsOf(sessions, func(s Session) string { return SessionKey(s.SkillID, s.Hash) }))
	uses := map[Session]SessionUse{}
	for session, state := range states {
		use := SessionUse{SessionState: state}
		for _, c := range days[SessionKey(session.SkillID, session.Hash)] {
			use.Seen = use.Seen || c.seen > 0
			use.Activated = use.Activated || c.triggers > 0
			use.Offered = use.Offered || c.offers > 0
		}
		uses[session] = use
	}
	return uses, err
}

// A SessionGrading is a grading with a verdict.
type SessionGrading struct {
	ID       string
	SkillID  string
	PassRate int64 // in billionths
	Basis    basis.Basis
	At       time.Time
}

// GradingsOf returns the gradings of sessions that have a verdict.
func GradingsOf(ctx context.Context, q store.Querier, sessions []Session) ([]SessionGrading, error) {
	wanted := make(map[Session]bool, len(sessions))
	for _, s := range sessions {
		wanted[s] = true
	}
	found, err := gradingsOfSessions(ctx, q, wanted)
	var all []SessionGrading
	for _, g := range found {
		if g.passRate != nil {
			all = append(all, SessionGrading{ID: g.id, SkillID: g.skillID, PassRate: *g.passRate, Basis: g.basis, At: g.at})
		}
	}
	return all, err
}
