package skills

import (
	"cmp"
	"context"
	"maps"
	"slices"
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

// written is what a report wrote of sessions, by their session keys.
type written struct {
	days     map[string]map[int64]seenCount
	versions map[string]string // used last; "" for none
	grades   map[string]*SessionGrade
}

// written returns what the transaction has just written. Of sessions that had used the
// skill before, the versions of that time are not known.
func (in *ingestion) written() written {
	w := written{days: in.tally.after, versions: map[string]string{}, grades: in.grades}
	for key, of := range in.tally.sessions {
		if of.skillKey == "" && in.tally.appeared[key] {
			w.versions[key] = ""
		}
	}
	last := map[string]int64{}
	for key, of := range in.tally.sessions {
		used, known := w.versions[of.skillKey]
		day, triggered := lastDay(w.days[key], func(c seenCount) int64 { return c.triggers })
		if known && triggered && (used == "" || cmp.Or(cmp.Compare(day, last[of.skillKey]), cmp.Compare(of.versionID, used)) > 0) {
			last[of.skillKey], w.versions[of.skillKey] = day, of.versionID
		}
	}
	return w
}

// Uses returns what the touched sessions have done with their skills up to now. It
// reads only what the report itself did not write.
func (c Changes) Uses(ctx context.Context, q store.Querier) (map[Session]SessionUse, error) {
	keys := columnsOf(c.Touched, func(s Session) string { return SessionKey(s.SkillID, s.Hash) })
	days, err := remember(ctx, q, keys, c.written.days, sessionDays)
	if err != nil {
		return nil, err
	}
	versions, err := remember(ctx, q, keys, c.written.versions, versionsOfSessions)
	if err != nil {
		return nil, err
	}
	grades, err := remember(ctx, q, keys, c.written.grades, sessionGrades)
	uses := make(map[Session]SessionUse, len(keys))
	for i, session := range c.Touched {
		use := SessionUse{SessionState: SessionState{Grade: grades[keys[i]], VersionID: orNull(versions[keys[i]])}}
		for _, d := range days[keys[i]] {
			use.Seen = use.Seen || d.seen > 0
			use.Activated = use.Activated || d.triggers > 0
			use.Offered = use.Offered || d.offers > 0
		}
		uses[session] = use
	}
	return uses, err
}

// remember returns the known values and reads those of the other keys.
func remember[V any](
	ctx context.Context, q store.Querier, keys []string, known map[string]V,
	read func(context.Context, store.Querier, []string) (map[string]V, error),
) (map[string]V, error) {
	unknown := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		_, ok := known[key]
		return ok
	})
	if len(unknown) == 0 {
		return known, nil
	}
	all, err := read(ctx, q, unknown)
	maps.Copy(all, known)
	return all, err
}

// A SessionGrading is a grading with a verdict.
type SessionGrading struct {
	ID       string
	SkillID  string
	PassRate int64 // in billionths
	Basis    basis.Basis
	At       time.Time // of the verdict
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
			all = append(all, SessionGrading{ID: g.id, SkillID: g.skillID, PassRate: *g.passRate, Basis: g.basis, At: g.ratedAt})
		}
	}
	return all, err
}
