package sessions

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// MaxEvents is how many events of a session are stored.
const MaxEvents = maxEvents

// Queries of the package, for the plan test.
var (
	SessionsByID     = sessionsByID
	SessionOf        = sessionOf
	EventsAfter      = eventsAfter
	SkillsOfSessions = skillsOfSessions
	ExpiredSessions  = expiredSessions
)

// Position is where a page begins.
type Position = position

// After returns the filter with a cursor.
func (f Filter) After(micros int64, id string) Filter {
	f.after = &position{micros, id}
	return f
}

// Page returns a page of sessions by their pseudonyms, for which at most so many are
// compared, and the filter of the next page.
func (f Filter) Page(ctx context.Context, q store.Querier, orgID string, compared int) (ids []string, next *Filter, err error) {
	f.maxCompared = compared
	found, last, err := listSessions(ctx, q, orgID, f)
	if last != nil {
		f.after = last
		next = &f
	}
	return columnsOf(found, func(s Session) string { return s.ID }), next, err
}

// EventsByKey looks up events.
var EventsByKey = eventsByKey

// Keys returns the keys of events of a session.
func Keys(session string, ids ...string) (keys []eventKey) {
	for _, id := range ids {
		keys = append(keys, eventKey{session, id})
	}
	return keys
}
