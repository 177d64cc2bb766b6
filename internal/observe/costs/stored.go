package costs

import (
	"cmp"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// request is a row of cost_requests.
type request struct {
	id       string
	session  string // hash, "" for none
	turn     string // hash, "" for none
	name     string // of the skill, as the producer attributes it; "" for none
	inferred bool
	at       time.Time
	model    string
	tokens   Tokens
	reported *int64 // micros

	// Derived from it, the session's marks and state, and the prices.
	attribution
	micros *int64
}

// An attribution is what a request counts for, zero for nothing but its
// organisation.
type attribution struct {
	skillID   string
	versionID string
	useKey    string
}

// stored returns the row of a reported request. Session and turn become pseudonyms:
// the agent's own ids are not in these tables.
func (in *ingestion) stored(r Request) request {
	name, err := skills.CleanName(r.Skill)
	if err != nil {
		name = "" // hidden by the producer, or none
	}
	s := request{
		id: r.ID, session: skills.SessionHash(in.userID, r.Session), name: name, inferred: r.Inferred,
		at: r.At.UTC().Truncate(time.Microsecond), model: r.Model, tokens: r.Tokens, reported: r.Micros,
	}
	if r.Turn != "" {
		s.turn = skills.PromptHash(in.orgID, in.userID, r.Turn)
	}
	return s
}

// merge combines two reports of one request, field by field. It is commutative,
// associative and idempotent: the order of arrival never matters. Producers count
// the same tokens, some of them before the request has ended, so the greater
// number is the later one.
func merge(a, b request) request {
	a.session, a.turn = max(a.session, b.session), max(a.turn, b.turn)
	a.name, a.model = max(a.name, b.name), max(a.model, b.model)
	// A producer that names skills knows better than a mark.
	a.inferred = a.inferred && b.inferred
	// The begin of the request, where one producer reports the begin and another the
	// end.
	if b.at.Before(a.at) {
		a.at = b.at
	}
	a.tokens = Tokens{
		Input: max(a.tokens.Input, b.tokens.Input), Output: max(a.tokens.Output, b.tokens.Output),
		CacheRead: max(a.tokens.CacheRead, b.tokens.CacheRead), CacheWrite: max(a.tokens.CacheWrite, b.tokens.CacheWrite),
		CacheWriteHour: max(a.tokens.CacheWriteHour, b.tokens.CacheWriteHour),
	}
	if a.reported == nil || b.reported != nil && *b.reported > *a.reported {
		a.reported = b.reported
	}
	return a
}

// equal compares everything that an update writes.
func (r request) equal(o request) bool {
	return r.session == o.session && r.turn == o.turn && r.name == o.name && r.inferred == o.inferred && r.at.Equal(o.at) &&
		r.model == o.model && r.tokens == o.tokens && same(r.reported, o.reported) && r.attribution == o.attribution &&
		same(r.micros, o.micros)
}

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// A moment is a point in a session.
type moment struct {
	session string
	at      int64 // microseconds
}

// before is the last moment before this one. Times are in microseconds, so nothing
// lies between.
func (m moment) before() moment { return moment{m.session, m.at - 1} }

func (r request) moment() moment { return moment{r.session, r.at.UnixMicro()} }

// mark is a row of cost_marks.
type mark struct {
	moment
	name      string
	opensTurn bool
}

// uniqueMarks merges the marks with the same key.
func uniqueMarks(marks []mark) []mark {
	opens := map[mark]bool{}
	for _, m := range marks {
		// A bulk upsert must not name a key twice.
		key := mark{moment: m.moment, name: m.name}
		opens[key] = opens[key] || m.opensTurn
	}
	unique := make([]mark, 0, len(opens))
	for m, opensTurn := range opens {
		m.opensTurn = opensTurn
		unique = append(unique, m)
	}
	slices.SortFunc(unique, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name))
	})
	return unique
}

// isPromptOf reports whether a mark without a skill is the prompt of the turn that
// the mark before it opened.
func (m mark) isPromptOf(before mark) bool {
	return m.name == "" && before.opensTurn && m.at-before.at <= promptDelay.Microseconds()
}

// awaitsMark reports whether the skill of the request is that of the last mark.
func (r request) awaitsMark() bool { return r.inferred && r.name == "" && r.session != "" }

// attribute sets the skill that the request counts for and the use that it belongs
// to: that of its turn, else the one that the mark began, else the session's.
func (r request) attribute(last mark, skillIDs map[string]string) request {
	name := r.name
	if r.awaitsMark() {
		name = last.name
	}
	// Kept: follow sets it from the session's state afterwards.
	versionID := r.versionID
	r.attribution = attribution{}
	if name == "" {
		return r
	}
	skillID := skillIDs[name]
	r.attribution = attribution{skillID: skillID, versionID: versionID}
	switch {
	case r.turn != "":
		r.useKey = skills.ID(skillID, r.session, "turn", r.turn)
	case r.awaitsMark():
		r.useKey = skills.ID(skillID, r.session, "mark", time.UnixMicro(last.at).UTC().Format(time.RFC3339Nano))
	case r.session != "":
		r.useKey = skills.ID(skillID, r.session, "session", "")
	default:
		// Without a session nothing tells which requests belong together.
		r.useKey = skills.ID(skillID, "", "request", r.id)
	}
	return r
}
