package costs

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A Report is the requests and marks of one request of a user's producer. It may
// have Sessions only: then nothing new was paid for, but what was moves.
type Report struct {
	OrgID, UserID string
	Requests      []Request
	Marks         []Mark
	// Sessions are those whose version or grade may have changed: see
	// skills.Changes. The costs of a session follow it.
	Sessions []skills.Session
}

// Ingest adds a report to the costs, each request and mark once. It must run in
// the transaction that stores the report, when skills.Observe calls for what
// follows: all lock the counters of costs before those of skills.
func (s *Service) Ingest(ctx context.Context, tx *store.Tx, r Report) (err error) {
	defer fault.Wrap(&err, "ingest costs")
	if len(r.Requests)+len(r.Marks)+len(r.Sessions) == 0 {
		return nil
	}
	in := newIngestion(tx, r.OrgID, r.UserID)
	if len(r.Requests)+len(r.Marks) > 0 {
		if err := skills.LockUser(ctx, tx, r.UserID); err != nil {
			return err
		}
		// Marks first: the requests of the same report are attributed by them.
		if err := in.addMarks(ctx, r.Marks); err != nil {
			return err
		}
		if err := in.addRequests(ctx, r.Requests); err != nil {
			return err
		}
		if err := in.attribute(ctx); err != nil {
			return err
		}
		if err := s.price(ctx, in, r.Requests); err != nil {
			return err
		}
	}
	// With Sessions alone the user is locked already, by the caller.
	if err := in.follow(ctx, r.Sessions); err != nil {
		return err
	}
	return in.write(ctx)
}

// ingestion is a change of requests, and of everything that is derived from them.
// before and after hold every request at hand; the rollups get the difference.
type ingestion struct {
	tx            *store.Tx
	orgID, userID string

	before map[string]request             // as stored, by id
	after  map[string]request             // as they will be stored, by id
	groups storedGroups                   // that the change may affect
	states map[string]skills.SessionState // by session key: what sessions with a skill become
}

func newIngestion(tx *store.Tx, orgID, userID string) *ingestion {
	return &ingestion{
		tx: tx, orgID: orgID, userID: userID, before: map[string]request{}, after: map[string]request{}, groups: storedGroups{},
	}
}

// load adds stored requests that are not loaded yet. A request that this report has
// changed already must not be overwritten.
func (in *ingestion) load(all []request) {
	for _, r := range all {
		if _, ok := in.before[r.id]; !ok {
			in.before[r.id], in.after[r.id] = r, r
		}
	}
}

// addMarks stores marks, and loads the requests whose last mark is one of them, or
// the one after it, which may be its prompt.
func (in *ingestion) addMarks(ctx context.Context, reported []Mark) error {
	var marks []mark
	for _, m := range reported {
		// A mark without a valid name still ends the use before it.
		name, err := skills.CleanName(m.Skill)
		if err != nil {
			name = ""
		}
		if session := skills.SessionHash(in.userID, m.Session); session != "" {
			marks = append(marks, mark{moment{session, m.At.UnixMicro()}, name, m.OpensTurn && name != ""})
		}
	}
	if len(marks) == 0 {
		return nil
	}
	marks = uniqueMarks(marks)
	if err := insertMarks(ctx, in.tx, marks); err != nil {
		return err
	}
	marked, err := requestsAfterMarks(ctx, in.tx, marks)
	in.load(marked)
	return err
}

// addRequests merges the reported requests with the stored ones.
func (in *ingestion) addRequests(ctx context.Context, reported []Request) error {
	known, err := requestsByID(ctx, in.tx, columnOf(reported, func(r Request) string { return r.ID }))
	if err != nil {
		return err
	}
	in.load(known)
	for _, r := range reported {
		s := in.stored(r)
		if earlier, ok := in.after[s.id]; ok {
			s = merge(earlier, s)
		}
		in.after[s.id] = s
	}
	return nil
}

// attribute finds the skill and the use of every loaded request.
func (in *ingestion) attribute(ctx context.Context) error {
	wanted := map[moment]bool{}
	// Only requests whose producer names no skill depend on marks.
	for _, r := range in.after {
		if r.awaitsMark() {
			wanted[r.moment()] = true
		}
	}
	lasts, err := activeMarks(ctx, in.tx, slices.Collect(maps.Keys(wanted)))
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, r := range in.after {
		names[r.name] = true
	}
	for _, m := range lasts {
		names[m.name] = true
	}
	delete(names, "")
	var skillIDs map[string]string
	if len(names) > 0 {
		// A cost is no use, so it does not confirm the name.
		skillIDs, err = skills.ResolveUnconfirmed(ctx, in.tx, in.orgID, slices.Sorted(maps.Keys(names)))
	}
	for id, r := range in.after {
		in.after[id] = r.attribute(lasts[r.moment()], skillIDs)
	}
	return err
}

// price sets the money of the reported requests.
func (s *Service) price(ctx context.Context, in *ingestion, reported []Request) error {
	if len(reported) == 0 {
		return nil
	}
	// Only reported requests are priced here; after a change of the prices a job
	// prices the others anew, see repriceSome.
	prices, err := s.pricesOf(ctx, in.tx, in.orgID)
	for _, r := range reported {
		in.after[r.ID] = prices.priced(in.after[r.ID])
	}
	return err
}

// follow gives requests the version of their session. Where that changed, or that
// of one of the given sessions, all requests of the session move.
func (in *ingestion) follow(ctx context.Context, changed []skills.Session) error {
	paid := map[skills.Session]bool{} // sessions of requests at hand
	var keys []string
	for _, all := range []map[string]request{in.before, in.after} {
		for _, r := range all {
			if s := r.skillSession(); s.Hash != "" {
				paid[s] = true
			}
			keys = append(keys, columnOf(groupsOf(in.orgID, r), func(g group) string { return g.key })...)
		}
	}
	keys = append(keys, columnOf(changed, keyOf)...)
	if err := in.groups.load(ctx, in.tx, keys); err != nil {
		return err
	}
	for _, s := range changed {
		if in.groups[keyOf(s)].requests > 0 { // else nothing is paid for in it
			paid[s] = true
		}
	}
	states, err := skills.SessionStates(ctx, in.tx, slices.Collect(maps.Keys(paid)))
	if err != nil {
		return err
	}
	in.states = map[string]skills.SessionState{}
	var moved []string
	for s, state := range states {
		key := keyOf(s)
		in.states[key] = state
		// The stored group has the version that its requests were counted for.
		if g := in.groups[key]; g.requests > 0 && g.versionID != orEmpty(state.VersionID) {
			moved = append(moved, key)
		}
	}
	all, err := requestsOfSessions(ctx, in.tx, moved)
	in.load(all)
	for id, r := range in.after {
		r.versionID = ""
		if s := r.skillSession(); s.Hash != "" {
			r.versionID = orEmpty(in.states[keyOf(s)].VersionID)
		}
		in.after[id] = r
	}
	return err
}

// skillSession is the session with the skill that the request belongs to; its
// Hash is "" if there is none.
func (r request) skillSession() skills.Session {
	if r.skillID == "" || r.session == "" {
		return skills.Session{}
	}
	return skills.Session{SkillID: r.skillID, Hash: r.session}
}

// keyOf returns the key of the group of a session with a skill.
func keyOf(s skills.Session) string { return skills.SessionKey(s.SkillID, s.Hash) }

// write stores the requests that changed and adds the difference to all rollups.
func (in *ingestion) write(ctx context.Context) error {
	t := &tally{
		orgID: in.orgID, days: map[dayKey]*dayCount{}, buckets: map[bucketKey]*bucketCount{}, models: map[modelKey]int64{},
		moves: map[string]*move{},
	}
	var fresh, changed []request
	// Sorted: bulk statements lock rows in the order in which they are given.
	for _, id := range slices.Sorted(maps.Keys(in.after)) {
		r := in.after[id]
		old, known := in.before[id]
		switch {
		case !known:
			fresh = append(fresh, r)
		case !old.equal(r):
			changed = append(changed, r)
			t.counted(old, -1)
		default:
			continue
		}
		t.counted(r, +1)
	}
	if err := insertRequests(ctx, in.tx, in.orgID, in.userID, fresh); err != nil {
		return err
	}
	if err := updateRequests(ctx, in.tx, changed); err != nil {
		return err
	}
	if err := t.regroup(ctx, in.tx, in.groups, in.states); err != nil {
		return err
	}
	return t.write(ctx, in.tx)
}

const secondsPerDay = 24 * 60 * 60

// dayOf returns the UTC day of a time, counted from the epoch. Go's division rounds
// towards zero, so days before 1970 need the correction.
func dayOf(t time.Time) int64 {
	day := t.Unix() / secondsPerDay
	if t.Unix()%secondsPerDay < 0 {
		day--
	}
	return day
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// columnOf maps a function over a slice, e.g. to get a column of rows.
func columnOf[Row, T any](rows []Row, value func(Row) T) []T {
	column := make([]T, len(rows))
	for i, row := range rows {
		column[i] = value(row)
	}
	return column
}
