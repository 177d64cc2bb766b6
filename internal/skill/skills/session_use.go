package skills

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Check is that a skill was considered in a session, as it is stored.
type Check struct {
	ID        string
	Session   string // the session's pseudonym, see SessionHash
	Skill     string // its name
	Triggered bool
	At        time.Time
}

// A SessionUse is what a session did with a skill. Seen is the widest: a session
// that was offered the skill and ignored it is only Seen and Offered.
type SessionUse struct {
	SessionState
	Seen      bool // it was offered, considered or activated
	Activated bool
	Offered   bool
}

// OnAttributed is a hook of what is attributed anew: the sessions that people can open follow it.
// Their rows must change in the same transaction, or a list of sessions would contradict the
// skill's figures.
type OnAttributed interface {
	// Follow is called in the transaction that attributes what a user reported anew.
	Follow(ctx context.Context, tx *store.Tx, orgID, userID string, c Changes) error
}

// written is what a report wrote of sessions, the days and grades by their session
// keys.
type written struct {
	days     map[string]map[int64]seenCount
	versions map[Session]string // activated last; "" for none
	grades   map[string]*SessionGrade
}

// written returns what the transaction has just written. Of sessions that had used the
// skill before, the versions of that time are not known.
func (in *ingestion) written() written {
	w := written{days: in.tally.after, versions: map[Session]string{}, grades: in.grades}
	last := map[Session]time.Time{}
	for _, o := range in.merged {
		of := Session{SkillID: o.skillID, Hash: o.sessionHash}
		used, known := w.versions[of]
		if !known {
			if o.sessionHash == "" || !in.tally.appeared[SessionKey(o.skillID, o.sessionHash)] {
				continue
			}
			w.versions[of] = ""
		}
		// A void observation has the weight 0 and counts as no use.
		if !o.triggered || o.weight <= 0 || o.versionID == nil {
			continue
		}
		// The same order as in lastActivated: time, then the version's id.
		if used == "" || cmp.Or(o.at.Compare(last[of]), cmp.Compare(*o.versionID, used)) > 0 {
			last[of], w.versions[of] = o.at, *o.versionID
		}
	}
	return w
}

// Uses returns what the touched sessions have done with their skills up to now. It
// reads only what the report itself did not write. Ingestion is the hottest path:
// most sessions are new, and need no query here.
func (c Changes) Uses(ctx context.Context, q store.Querier) (map[Session]SessionUse, error) {
	keys := columnsOf(c.Touched, func(s Session) string { return SessionKey(s.SkillID, s.Hash) })
	days, err := remember(ctx, q, keys, c.written.days, sessionDays)
	if err != nil {
		return nil, err
	}
	versions, err := remember(ctx, q, c.Touched, c.written.versions, lastActivated)
	if err != nil {
		return nil, err
	}
	grades, err := remember(ctx, q, keys, c.written.grades, sessionGrades)
	uses := make(map[Session]SessionUse, len(keys))
	for i, session := range c.Touched {
		use := SessionUse{SessionState: SessionState{Grade: grades[keys[i]], VersionID: orNull(versions[session])}}
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
func remember[K comparable, V any](
	ctx context.Context, q store.Querier, keys []K, known map[K]V,
	read func(context.Context, store.Querier, []K) (map[K]V, error),
) (map[K]V, error) {
	unknown := slices.DeleteFunc(slices.Clone(keys), func(key K) bool {
		_, ok := known[key]
		return ok
	})
	if len(unknown) == 0 {
		return known, nil
	}
	all, err := read(ctx, q, unknown)
	// What was written wins over what is read, though both should be the same.
	maps.Copy(all, known)
	return all, err
}
