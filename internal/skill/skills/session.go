package skills

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// A SessionState is what is known of a session of a skill.
type SessionState struct {
	VersionID *string       // of the skill that was activated last, by time; nil if none is known
	Grade     *SessionGrade // nil without a verdict
}

// A SessionGrade is the grade of a session: the mean of its gradings with the
// highest basis, on the day of the newest.
type SessionGrade struct {
	Day      int64 // since the epoch, UTC
	PassRate int64 // in billionths
	Basis    basis.Basis
}

// SessionHash returns the pseudonym of a user's session, "" for none.
func SessionHash(userID, session string) string {
	if session == "" {
		return ""
	}
	return digest(userID, "session", session)
}

// SessionKey returns the key of the rollups of a session for a subject, which is
// a skill, a version or an organisation.
func SessionKey(subject, sessionHash string) string { return digest(subject, sessionHash) }

// SessionStates returns the states of sessions.
func SessionStates(ctx context.Context, q store.Querier, sessions []Session) (map[Session]SessionState, error) {
	states := map[Session]SessionState{}
	if len(sessions) == 0 {
		return states, nil
	}
	keys := columnsOf(sessions, func(s Session) string { return SessionKey(s.SkillID, s.Hash) })
	versions, err := lastActivated(ctx, q, sessions)
	if err != nil {
		return nil, err
	}
	grades, err := sessionGrades(ctx, q, keys)
	for i, s := range sessions {
		states[s] = SessionState{VersionID: orNull(versions[s]), Grade: grades[keys[i]]}
	}
	return states, err
}
